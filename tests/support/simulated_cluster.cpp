#include "tests/support/simulated_cluster.h"

#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "estimator/quantities.h"
#include "estimator/spec/median.h"

namespace planwright::testing {
namespace {

using estimator::quantify;

Calibration drawn_around(Calibration prior, double shift, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  for (Coefficient& each : prior.coefficients) {
    each.value = each.prior_mean + shift * each.prior_sd * normal(random);
  }
  return prior;
}

/// A generator of the candidate's own, the same on every call.
std::mt19937_64 generator_of(const Candidate& candidate, std::uint64_t seed) {
  return std::mt19937_64(seed ^ std::stoull(candidate_hash(candidate), nullptr, 16));
}

}  // namespace

SimulatedCluster::SimulatedCluster(Problem problem, TargetTraits traits, const Calibration& prior,
                                   Simulation simulation, std::uint64_t seed)
    : problem_(std::move(problem)),
      traits_(std::move(traits)),
      truth_(problem_, traits_, drawn_around(prior, simulation.coefficient_shift, seed)),
      simulation_(simulation),
      seed_(seed) {}

double SimulatedCluster::true_step_time(const Candidate& candidate) const {
  std::mt19937_64 random = generator_of(candidate, seed_);
  std::normal_distribution<double> normal;
  return truth_.figures(quantify(problem_, traits_, candidate)).step_time.value *
         std::exp(simulation_.offset * normal(random));
}

Bytes SimulatedCluster::true_peak(const Candidate& candidate) const {
  const Bytes priced = truth_.figures(quantify(problem_, traits_, candidate)).allocated;
  return Bytes{std::llround(static_cast<double>(priced.value) * simulation_.memory_factor)};
}

bool SimulatedCluster::truly_fits(const Candidate& candidate) const {
  return true_peak(candidate) <= capacity(problem_);
}

/// A probe on its way; its noise is the candidate's own.
struct SimulatedCluster::Running {
  Candidate candidate;
  std::mt19937_64 random;
  std::normal_distribution<double> normal{};
  std::vector<double> steps_s{};
};

void SimulatedCluster::take_steps(Running& running, int steps) {
  if (!truly_fits(running.candidate)) return;
  const double time = true_step_time(running.candidate);
  for (int step = 0; step < steps; ++step) {
    const double noise = simulation_.noise * running.normal(running.random);
    running.steps_s.push_back(time * std::exp(noise + simulation_.drift * (now_ - kBegin)));
    now_ += running.steps_s.back();
  }
}

Outcome SimulatedCluster::outcome_of(const Running& running) const {
  Outcome outcome;
  if (!truly_fits(running.candidate)) {
    OutOfMemory full;
    full.capacity = full.allocated = capacity(problem_);
    full.requested = Bytes{1};
    outcome.value = full;
    return outcome;
  }
  Measurement measurement;
  measurement.steps_s = running.steps_s;
  measurement.step_time_s = median(measurement.steps_s);
  RankMeasurement rank;
  rank.peak[Account::activations] = rank.tensors[Account::activations] =
      true_peak(running.candidate);
  rank.steps_s = measurement.steps_s;
  measurement.ranks = {rank};
  const auto tokens = static_cast<double>(problem_.workload.seq * problem_.workload.global_batch);
  measurement.tokens_per_second_per_device =
      tokens / problem_.cluster.devices() / measurement.step_time_s;
  outcome.value = measurement;
  return outcome;
}

std::vector<Outcome> SimulatedCluster::probe_in_turns(const std::vector<Proposal>& proposals,
                                                      int rounds) {
  now_ += simulation_.start_seconds;
  std::vector<Running> running;
  for (const Proposal& proposal : proposals) {
    running.push_back({proposal.candidate, generator_of(proposal.candidate, seed_ + 1)});
  }
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < running.size(); ++i) {
      const std::size_t turn = round % 2 == 0 ? i : running.size() - 1 - i;
      take_steps(running[turn], proposals[turn].scope.steps / rounds);
    }
  }
  std::vector<Outcome> outcomes;
  for (const Running& each : running) outcomes.push_back(outcome_of(each));
  return outcomes;
}

Outcome SimulatedCluster::probe(const Proposal& proposal) {
  return probe_in_turns({proposal}, 1).front();
}

}  // namespace planwright::testing
