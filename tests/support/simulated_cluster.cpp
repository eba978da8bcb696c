#include "tests/support/simulated_cluster.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <utility>

#include "estimator/quantities.h"

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

Outcome SimulatedCluster::probe(const Proposal& proposal) {
  now_ += simulation_.start_seconds;
  Outcome outcome;
  const Bytes peak = true_peak(proposal.candidate);
  if (peak > capacity(problem_)) {
    OutOfMemory full;
    full.capacity = full.allocated = capacity(problem_);
    full.requested = Bytes{1};
    outcome.value = full;
    return outcome;
  }
  std::mt19937_64 random = generator_of(proposal.candidate, seed_ + 1);
  std::normal_distribution<double> normal;
  Measurement measurement;
  const double time = true_step_time(proposal.candidate);
  for (int step = 0; step < proposal.scope.steps; ++step) {
    measurement.steps_s.push_back(time * std::exp(simulation_.noise * normal(random)));
    now_ += measurement.steps_s.back();
  }
  std::vector<double> sorted = measurement.steps_s;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  measurement.step_time_s = sorted[sorted.size() / 2];
  RankMeasurement rank;
  rank.peak[Account::activations] = rank.tensors[Account::activations] = peak;
  rank.steps_s = measurement.steps_s;
  measurement.ranks = {rank};
  const auto tokens = static_cast<double>(problem_.workload.seq * problem_.workload.global_batch);
  measurement.tokens_per_second_per_device =
      tokens / problem_.cluster.devices() / measurement.step_time_s;
  outcome.value = measurement;
  return outcome;
}

}  // namespace planwright::testing
