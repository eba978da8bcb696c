#include "tune_arena.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

#include "estimator/calibrate.h"
#include "search/evidence.h"
#include "search/rank.h"
#include "search/repeat.h"
#include "tests/support/fake_traits.h"

namespace planwright::search {
namespace {

std::vector<Outcome> outcomes_of(const std::vector<Proposal>& proposals, SimulatedCluster& cluster,
                                 const Disturbance& disturbance) {
  std::vector<Outcome> outcomes;
  if (disturbance.one_after_another) {
    for (const Proposal& proposal : proposals) outcomes.push_back(cluster.probe(proposal));
  } else {
    outcomes = cluster.probe_in_turns(proposals, proposals.size() > 1 ? kRepeatFactor : 1);
  }
  for (std::size_t i = 0; disturbance.instead && i < proposals.size(); ++i) {
    if (auto outcome = disturbance.instead(proposals[i])) outcomes[i] = *outcome;
  }
  return outcomes;
}

}  // namespace

Arena::Arena(Precision precision) : traits(testing::fake_traits()) {
  ModelSpec model = testing::tiny_llama();
  model.hidden = 128;
  model.vocab = 1000;
  model.runs.front().count = 4;
  model.runs.front().block.ffn = 384;
  problem = testing::fake_problem(model, 2, precision);
  problem.workload.seq = 64;
  problem.workload.global_batch = 240;
  space = enumerate(problem, traits, {});
  prior = estimator::prior_calibration(problem, traits, std::nullopt);
  prior.time_noise = 0.1;
  problem.cluster.device.memory = size_at(0.75);
}

Bytes Arena::size_at(double fraction) const {
  std::vector<Bytes> sizes;
  const estimator::Pricer pricer(problem, traits, prior);
  for (const auto& each : quantify(problem, traits, space)) {
    sizes.push_back(pricer.figures(each).judged);
  }
  std::sort(sizes.begin(), sizes.end());
  const auto above = static_cast<std::size_t>(fraction * static_cast<double>(sizes.size()));
  return Bytes{(sizes[above - 1].value + sizes[above].value) / 2};
}

const Arena& arena() {
  static const Arena kArena;
  return kArena;
}

Night tune_on(const Arena& on, SimulatedCluster& cluster, const Budget& budget,
              std::vector<Trial> history, const Disturbance& disturbance, std::uint64_t seed) {
  Night made;
  std::size_t begun = 0, refitted_to = 0;
  auto next = static_cast<std::int64_t>(history.size());
  TuneHooks hooks;
  hooks.probe = [&](const std::vector<Proposal>& proposals) {
    begun += proposals.size();
    made.rounds.push_back(proposals.size());
    return outcomes_of(proposals, cluster, disturbance);
  };
  hooks.record = [&](Trial& trial) {
    trial.number = next++;
    made.trials.push_back(trial);
  };
  hooks.on_refit = [&](const Calibration&, const ModelError& error) {
    made.errors.push_back(error);
    EXPECT_GT(made.trials.size(), refitted_to) << "recorded before anything else";
    refitted_to = made.trials.size();
  };
  hooks.now = [&] { return cluster.now(); };
  hooks.begin_round = disturbance.news;
  if (disturbance.interrupted) {
    hooks.interrupted = [&] { return disturbance.interrupted(begun); };
  }
  made.plan =
      tune(on.problem, on.traits, on.space, on.prior, std::move(history), hooks, budget, seed);
  return made;
}

SimulatedCluster cluster_of(const Simulation& simulation, std::uint64_t seed) {
  return {arena().problem, arena().traits, arena().prior, simulation, seed};
}

Budget probes(int count) {
  Budget budget;
  budget.probes = count;
  return budget;
}

int count(const std::vector<Trial>& trials, OutcomeKind kind) {
  return static_cast<int>(std::count_if(trials.begin(), trials.end(), [&](const Trial& trial) {
    return trial.outcome.kind() == kind;
  }));
}

std::vector<Candidate> candidates(const std::vector<Trial>& trials) {
  std::vector<Candidate> all;
  all.reserve(trials.size());
  for (const Trial& trial : trials) all.push_back(trial.candidate);
  return all;
}

double best_true_time(const SimulatedCluster& cluster) {
  double best = 1e300;
  for (const Candidate& each : arena().space.legal) {
    if (cluster.truly_fits(each)) best = std::min(best, cluster.true_step_time(each));
  }
  return best;
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(q * static_cast<double>(values.size() - 1))];
}

}  // namespace planwright::search
