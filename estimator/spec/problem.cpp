#include "estimator/spec/problem.h"

#include <algorithm>
#include <cmath>

#include "estimator/spec/candidate.h"
#include "estimator/spec/json_fields.h"
#include "estimator/spec/sha256.h"

namespace planwright {

std::string problem_hash(const Problem& problem) {
  return sha256_hex(canonical_text(json_io::encode(problem, json_io::Form::hashed)));
}

namespace {

Bytes less_headroom(Bytes memory, const Headroom& headroom) {
  const double free = std::ceil(static_cast<double>(memory.value) * headroom.fraction);
  return std::max(Bytes{}, memory - Bytes{static_cast<std::int64_t>(free)} - headroom.bytes);
}

}  // namespace

Bytes capacity(const Problem& problem) {
  return less_headroom(problem.cluster.device.memory, problem.workload.headroom);
}

std::optional<Bytes> host_capacity(const Problem& problem) {
  if (!problem.cluster.host_memory) return std::nullopt;
  return less_headroom(*problem.cluster.host_memory, problem.workload.headroom);
}

std::int64_t accumulation(const Problem& problem, const Candidate& candidate) {
  const std::int64_t at_once = std::int64_t{candidate.dp} * candidate.micro_batch;
  if (at_once < 1) return 0;
  return problem.workload.global_batch == 0 ? 1 : problem.workload.global_batch / at_once;
}

std::int64_t tokens_per_step(const Problem& problem, const Candidate& candidate) {
  return accumulation(problem, candidate) * candidate.dp * candidate.micro_batch *
         problem.workload.seq;
}

}  // namespace planwright
