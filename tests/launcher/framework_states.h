#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "estimator/models.h"
#include "estimator/quantities.h"
#include "tests/support/fake_traits.h"

/// Arithmetic of what frameworks keep that knows the shapes of a model, and no tensor of ours: that
/// of tests/frameworks/observer_table.py, which the real frameworks agree with.
namespace planwright::targets {

using Shape = std::vector<std::int64_t>;

/// Of docs/demo/llama-5m.json, as Hugging Face's classes and torchtitan's store it.
inline std::vector<Shape> shapes() {
  const std::vector<Shape> block{{256},      {256, 256}, {128, 256}, {128, 256}, {256, 256},
                                 {688, 256}, {688, 256}, {256, 688}, {256}};
  std::vector<Shape> all{{4608, 256}};
  for (int layer = 0; layer < 4; ++layer) all.insert(all.end(), block.begin(), block.end());
  all.push_back({256});
  all.push_back({4608, 256});
  return all;
}

inline std::int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

inline std::int64_t up(std::int64_t value, std::int64_t divisor) {
  return (value + divisor - 1) / divisor;
}

struct Sums {
  std::int64_t elements = 0, tensors = 0;
  std::int64_t rows = 0;   ///< of rank 0, which has most, if rows are dealt out
  std::int64_t parts = 0;  ///< of a rank, if each tensor is cut into equal parts
  std::int64_t flat = 0;   ///< all of it, padded to two elements for each rank
};

inline Sums sums_of(std::int64_t world) {
  Sums sums;
  for (const Shape& shape : shapes()) {
    sums.elements += product(shape);
    sums.rows += up(shape[0], world) * product(shape) / shape[0];
    sums.parts += up(product(shape), world);
    ++sums.tensors;
  }
  sums.flat = up(sums.elements, 2 * world) * 2 * world;
  return sums;
}

inline Problem problem_of(const TargetTraits& traits, int world, Precision precision) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), world, Precision::fp32);
  problem.model = estimator::find_model(PLANWRIGHT_SOURCE_DIR "/docs/demo/llama-5m.json", "", "");
  problem.workload.seq = 32;
  problem.workload.global_batch = 4 * world;
  problem.workload.precision = precision;
  problem.workload.recipe = traits.recipe(precision).value();
  problem.target = traits.name;
  problem.target_version = traits.version;
  return problem;
}

/// One micro-batch a step, unless it is said.
inline Candidate candidate_of(int world, int zero, int micro_batch = 4) {
  return testing::data_parallel(world, zero, micro_batch);
}

inline Ledger ledger_at(Phase phase, const TargetTraits& traits, const Problem& problem,
                        const Candidate& candidate) {
  const auto q = estimator::quantify(problem, traits, candidate);
  return q.stages.at(0).phases[static_cast<std::size_t>(phase)].tensors;
}

constexpr Precision kFp32 = Precision::fp32, kBf16 = Precision::bf16;

inline constexpr std::int64_t kAllowed = 64;  ///< bytes; the observer's table allows 1024

}  // namespace planwright::targets
