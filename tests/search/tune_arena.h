#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "search/tune.h"
#include "tests/support/simulated_cluster.h"

/// A small study on a simulated cluster, for the tests of the whole loop.
namespace planwright::search {

using testing::SimulatedCluster;
using testing::Simulation;

/// 64 plans of a small model on two devices, a quarter of which the model takes for too large.
struct Arena {
  explicit Arena(Precision precision = Precision::bf16);

  Problem problem;
  TargetTraits traits;
  Space space;
  Calibration prior;

  /// A size between two predicted peaks, below which this fraction of the plans stays.
  Bytes size_at(double fraction) const;
};
const Arena& arena();

/// What a run did.
struct Night {
  Plan plan;
  std::vector<Trial> trials;  ///< those of this run
  std::vector<ModelError> errors;
  std::vector<std::size_t> rounds;  ///< probes in each
};

/// Where a run may be disturbed.
struct Disturbance {
  std::function<std::optional<Outcome>(const Proposal&)> instead{};  ///< of the cluster's outcome
  std::function<bool(std::size_t probes)> interrupted{};
  std::function<std::vector<Trial>()> news{};
  bool one_after_another = false;  ///< also contenders
};

Night tune_on(const Arena& on, SimulatedCluster& cluster, const Budget& budget,
              std::vector<Trial> history = {}, const Disturbance& disturbance = {},
              std::uint64_t seed = 0);

SimulatedCluster cluster_of(const Simulation& simulation, std::uint64_t seed);
Budget probes(int count);
int count(const std::vector<Trial>& trials, OutcomeKind kind);
std::vector<Candidate> candidates(const std::vector<Trial>& trials);
double best_true_time(const SimulatedCluster& cluster);
double quantile(std::vector<double> values, double q);

}  // namespace planwright::search
