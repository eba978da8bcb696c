#include "tests/support/ledger_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "launcher/targets/builtin/rules.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"

namespace planwright::testing {
namespace {

constexpr int kLargestDp = 3;

/// Two values of different axes: axis, value, axis, value.
using ValuePair = std::tuple<std::size_t, int, std::size_t, int>;

std::set<ValuePair> pairs_of(const LedgerCell& cell) {
  const AxisCodes codes = axis_codes(cell);
  std::set<ValuePair> pairs;
  for (std::size_t a = 0; a < codes.size(); ++a) {
    for (std::size_t b = a + 1; b < codes.size(); ++b) pairs.insert({a, codes[a], b, codes[b]});
  }
  return pairs;
}

std::ptrdiff_t overlap(const LedgerCell& cell, const std::set<ValuePair>& wanted) {
  const auto pairs = pairs_of(cell);
  return std::count_if(pairs.begin(), pairs.end(),
                       [&](const ValuePair& pair) { return wanted.count(pair) > 0; });
}

BlockSpec gpt_block() {
  BlockSpec block;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  return block;
}

BlockSpec llama_block() {
  BlockSpec block;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  return block;
}

}  // namespace

/// 32, 64 and 256 queries at a time from 192 and 768 tokens on: docs/runtime.md, Workspace.
const std::vector<LedgerShape>& ledger_shapes() {
  static const std::vector<LedgerShape> kShapes{
      // name        layers hidden heads kv dim ffn vocab tied  seq  micro accumulation bucket
      {"plain", 2, 64, 4, 4, 16, 256, 512, false, 64, 1, 1, 0},
      {"grouped heads", 2, 96, 6, 2, 16, 200, 300, false, 100, 2, 2, 20000},
      {"odd sizes", 3, 33, 3, 1, 10, 71, 101, true, 37, 3, 3, 999},
      {"191 tokens", 1, 48, 4, 2, 12, 96, 128, true, 191, 1, 2, 5000},
      {"192 tokens", 1, 48, 4, 2, 12, 96, 128, false, 192, 2, 1, 5000},
      {"767 tokens", 1, 32, 2, 1, 16, 64, 64, true, 767, 1, 1, 0},
      {"768 tokens", 1, 32, 2, 1, 16, 64, 64, false, 768, 1, 2, 1500},
      {"wide vocabulary", 1, 32, 2, 2, 16, 64, 4099, true, 48, 2, 1, 10000},
      {"deep", 6, 40, 5, 5, 8, 100, 97, false, 24, 2, 3, 3000},
      {"large weights", 2, 128, 4, 4, 32, 512, 64, false, 8, 1, 1, 50000},
  };
  return kShapes;
}

std::vector<LedgerCell> ledger_cells() {
  std::vector<LedgerCell> cells;
  for (const BlockKind kind : {BlockKind::gpt, BlockKind::llama}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      for (int dp = 1; dp <= kLargestDp; ++dp) {
        for (const int zero : {0, 1}) {
          for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
            for (std::size_t shape = 0; shape < ledger_shapes().size(); ++shape) {
              cells.push_back({kind, precision, dp, zero, recompute, shape});
            }
          }
        }
      }
    }
  }
  return cells;
}

/// Greedy: always the cell with the most pairs that are still wanted, the first of equals.
std::vector<LedgerCell> covering_cells() {
  const std::vector<LedgerCell> all = ledger_cells();
  std::set<ValuePair> wanted;
  for (const LedgerCell& cell : all) wanted.merge(pairs_of(cell));
  std::vector<LedgerCell> chosen;
  while (!wanted.empty()) {
    chosen.push_back(*std::max_element(all.begin(), all.end(), [&](const auto& a, const auto& b) {
      return overlap(a, wanted) < overlap(b, wanted);
    }));
    for (const ValuePair& pair : pairs_of(chosen.back())) wanted.erase(pair);
  }
  return chosen;
}

AxisCodes axis_codes(const LedgerCell& cell) {
  return {static_cast<int>(cell.kind),      static_cast<int>(cell.precision), cell.dp, cell.zero,
          static_cast<int>(cell.recompute), static_cast<int>(cell.shape)};
}

std::string describe(const LedgerCell& cell) {
  return fmt::format("{} {} dp {} zero {} recompute {}, {}", word(cell.kind), word(cell.precision),
                     cell.dp, cell.zero, word(cell.recompute), ledger_shapes().at(cell.shape).name);
}

ModelSpec model_of(BlockKind kind, const LedgerShape& shape) {
  BlockSpec block = kind == BlockKind::gpt ? gpt_block() : llama_block();
  block.heads = shape.heads;
  block.kv_heads = shape.kv_heads;
  block.head_dim = shape.head_dim;
  block.ffn = shape.ffn;
  ModelSpec model;
  model.name = shape.name;
  model.hidden = shape.hidden;
  model.vocab = shape.vocab;
  model.max_positions = shape.seq + 3;  // learned positions that no token uses are weights too
  model.positions = kind == BlockKind::gpt ? Positions::learned : Positions::rotary;
  model.tied_embeddings = shape.tied;
  model.runs = {{shape.layers, block}};
  return model;
}

Problem ledger_problem(const LedgerCell& cell) {
  const TargetTraits& traits = targets::builtin::traits();
  const LedgerShape& shape = ledger_shapes().at(cell.shape);
  Problem problem = fake_problem(model_of(cell.kind, shape), cell.dp, cell.precision);
  problem.target = traits.name;
  problem.target_version = traits.version;
  problem.traits_revision = traits.revision;
  problem.workload.recipe = cell.recipe.value_or(traits.recipe(cell.precision).value());
  problem.workload.optimizer = cell.optimizer;
  problem.workload.seq = shape.seq;
  problem.workload.global_batch = std::int64_t{cell.dp} * shape.micro_batch * shape.accumulation;
  return problem;
}

Candidate ledger_candidate(const LedgerCell& cell) {
  const LedgerShape& shape = ledger_shapes().at(cell.shape);
  Candidate candidate = data_parallel(cell.dp, cell.zero, shape.micro_batch, cell.recompute);
  if (shape.bucket_elements > 0) {
    candidate.knobs = {{targets::builtin::kBucketKnob, std::to_string(shape.bucket_elements)}};
  }
  return candidate;
}

}  // namespace planwright::testing
