#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/words.h"

namespace planwright::testing {

/// gpt: learned positions, layer norm, biases, plain MLP. llama: rotary positions, RMS norm, gated
/// MLP. Either may have grouped heads and a tied head.
enum class BlockKind { gpt, llama };

/// The sizes of one training job, whatever the kind of its blocks.
struct LedgerShape {
  std::string name;
  std::int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
  std::int64_t seq;
  int micro_batch, accumulation;
  std::int64_t bucket_elements;  ///< 0: the target's default
};
const std::vector<LedgerShape>& ledger_shapes();

/// One cell of the table in which the estimator and the CPU worker are compared byte by byte.
struct LedgerCell {
  BlockKind kind = BlockKind::gpt;
  Precision precision = Precision::fp32;
  int dp = 1;
  int zero = 0;
  RecomputeKind recompute = RecomputeKind::none;
  std::size_t shape = 0;  ///< into ledger_shapes()
  // No axes of the table; recipe_cells.h varies them.
  OptimizerKind optimizer = OptimizerKind::adamw;
  std::optional<PrecisionRecipe> recipe = std::nullopt;  ///< none: the target's for the precision
  bool operator==(const LedgerCell&) const = default;
};

/// Every combination, the shape turning fastest.
std::vector<LedgerCell> ledger_cells();

/// Few cells of the table in which every two values of different axes meet at least once.
std::vector<LedgerCell> covering_cells();

/// The cell's value on each axis, as numbers.
using AxisCodes = std::array<int, 6>;
AxisCodes axis_codes(const LedgerCell& cell);

/// "gpt bf16 dp 2 zero 1 recompute full, wide vocabulary".
std::string describe(const LedgerCell& cell);

ModelSpec model_of(BlockKind kind, const LedgerShape& shape);

/// The built-in runtime's problem on `dp` CPU devices of 1 GiB with one thread each.
Problem ledger_problem(const LedgerCell& cell);
Candidate ledger_candidate(const LedgerCell& cell);

}  // namespace planwright::testing

template <>
struct planwright::Words<planwright::testing::BlockKind> {
  static constexpr std::array<std::string_view, 2> kWords{"gpt", "llama"};
};
