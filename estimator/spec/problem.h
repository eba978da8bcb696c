#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/ledger.h"
#include "estimator/spec/model_spec.h"
#include "estimator/spec/workload.h"

namespace planwright {

struct Candidate;

/// Everything a plan is made for. One value, one hash: two studies with equal hashes may be
/// compared trial by trial.
struct Problem {
  ModelSpec model;
  ClusterSpec cluster;
  Workload workload;
  std::string target;
  std::string target_version;
  int traits_revision = 1;

  bool operator==(const Problem&) const = default;
};

/// SHA-256, in hex, of the problem's canonical JSON with default-valued fields left out, and
/// without what changes nothing: the model's name and the device's source.
std::string problem_hash(const Problem& problem);

/// Device memory that a plan may fill: the device's less the headroom.
Bytes capacity(const Problem& problem);

/// The same of a node's memory; nullopt where it is not known.
std::optional<Bytes> host_capacity(const Problem& problem);

/// The target that is any training script: launcher/targets/command.
constexpr const char* kCommandTarget = "command";

/// Micro-batches per optimizer step: global_batch / (dp micro_batch), or 1 where the global batch
/// is not fixed. The rule that it is whole is the target's; here it is rounded down, and 0 where a
/// degree is none.
std::int64_t accumulation(const Problem& problem, const Candidate& candidate);

/// Of one optimizer step, over all devices.
std::int64_t tokens_per_step(const Problem& problem, const Candidate& candidate);

}  // namespace planwright
