#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"
#include "probes/protocol/probe_request.h"

/// What the self-test of a device runs: small jobs of one process each, in bf16, whose bytes are
/// known beforehand.
namespace planwright::cli {

struct SelfTestProbe {
  std::string name;
  Problem problem;
  Candidate candidate;
  ProbeScope scope{.warmup = 1, .steps = 1};
  std::optional<Bytes> memory_limit{};  ///< none: the device's
};

const TargetTraits& self_test_traits();
probes::TrainJob job_of(const SelfTestProbe& probe);

/// The one that is looked at account by account.
SelfTestProbe trace_probe(const DeviceSpec& device);
/// Shapes by recomputation, and what ZeRO can do on one device.
std::vector<SelfTestProbe> table_probes(const DeviceSpec& device);
/// Ranks of eight devices (tp 2, pp 2, dp 2), played by one.
std::vector<SelfTestProbe> shadow_probes(const DeviceSpec& device);
/// The first one with larger micro-batches and a limit of half their memory.
SelfTestProbe overfull_probe(const DeviceSpec& device);

}  // namespace planwright::cli
