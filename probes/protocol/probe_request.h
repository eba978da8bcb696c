#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/json.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/words.h"

/// What the worker is asked. One JSON file, the same for every rank of a run; the rank comes on
/// the command line: `planwright-worker-cpu REQUEST.json RANK`.
namespace planwright::probes {

/// Train the problem's model under the candidate on generated tokens: warm-up steps, then measured
/// ones. The tokens of a sample depend on its index in the global batch only, so every layout of
/// the ranks sees the same data.
struct TrainJob {
  Problem problem;
  Candidate candidate;
  ProbeScope scope;
  std::int64_t bucket_elements = 0;  ///< of the flat layout, from the target's traits
  bool overlap =
      true;  ///< collectives of the data ranks beside the passes, from the target's traits
  KernelSet kernels = KernelSet::in_place;
  std::optional<Bytes> memory_budget;  ///< a CPU device's capacity, enforced by the allocator
  std::uint64_t seed = 0;              ///< of weights and tokens
  bool timeline = false;               ///< report every allocation of the last step
  /// If not empty: after the first step's reduction, before the optimizer, each rank R of the first
  /// data rank writes the loss and every gradient of its part as doubles (order of part_tensors,
  /// padding of the layout left out) to `DUMP.R.gradients`, and after the last step every weight to
  /// `DUMP.R.weights`.
  std::string dump;
  bool operator==(const TrainJob&) const = default;
};

/// Measure what the hardware does, with all ranks at once as in a real step.
struct BenchmarkJob {
  DeviceKind device = DeviceKind::cpu;
  int threads = 1;
  bool operator==(const BenchmarkJob&) const = default;
};

enum class JobKind { train, benchmark };
}  // namespace planwright::probes

template <>
struct planwright::Words<planwright::probes::JobKind> {
  static constexpr std::array<std::string_view, 2> kWords{"train", "benchmark"};
};

namespace planwright::probes {

/// A set of processes may run several jobs in a row; an out-of-memory ends the row.
struct ProbeRequest {
  int world = 1;
  int threads = 1;  ///< per rank
  DeviceKind device = DeviceKind::cpu;
  std::string rendezvous;     ///< a fresh path for the FileStore all ranks meet at
  std::string report_prefix;  ///< rank r writes PREFIX.r.json
  double collective_timeout_s = 30;
  /// Bytes/s of an artificial link that slows every group's collectives down, to see what overlap
  /// hides; null: as fast as they are.
  std::optional<double> link_bytes_per_s;
  JobKind kind = JobKind::train;
  std::vector<TrainJob> train;
  BenchmarkJob benchmark;
  bool operator==(const ProbeRequest&) const = default;
};

Json to_json(const ProbeRequest& request);
ProbeRequest probe_request_from_json(const Json& json, const std::string& source);

}  // namespace planwright::probes
