#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/model_spec.h"

namespace planwright {
namespace {

const BlockSpec kGptBlock{.heads = 2,
                          .kv_heads = 2,
                          .head_dim = 4,
                          .ffn = 32,
                          .mlp = MlpKind::plain,
                          .activation = Activation::gelu_tanh,
                          .norm = NormKind::layer_norm,
                          .qkv_bias = true,
                          .out_bias = true,
                          .mlp_bias = true};
const BlockSpec kLlamaBlock{.heads = 4,
                            .kv_heads = 2,
                            .head_dim = 4,
                            .ffn = 24,
                            .mlp = MlpKind::gated,
                            .activation = Activation::silu,
                            .norm = NormKind::rms_norm};

ModelSpec model_of(const BlockSpec& block, Positions positions, bool tied) {
  ModelSpec model;
  model.hidden = 8;
  model.vocab = 50;
  model.max_positions = 16;
  model.positions = positions;
  model.tied_embeddings = tied;
  model.runs = {{1, block}};
  return model;
}

using Named = std::vector<std::pair<std::string, std::vector<std::int64_t>>>;

Named named(const ModelSpec& model) {
  Named out;
  for (const auto& tensor : parameter_tensors(model)) out.emplace_back(tensor.name, tensor.shape);
  return out;
}

TEST(SpecModelSpec, AGptModelHasPositionsBiasesAndATiedHead) {
  const Named expected{{"embedding", {50, 8}},
                       {"positions", {16, 8}},
                       {"blocks.0.norm1.weight", {8}},
                       {"blocks.0.norm1.bias", {8}},
                       {"blocks.0.qkv.weight", {24, 8}},
                       {"blocks.0.qkv.bias", {24}},
                       {"blocks.0.out.weight", {8, 8}},
                       {"blocks.0.out.bias", {8}},
                       {"blocks.0.norm2.weight", {8}},
                       {"blocks.0.norm2.bias", {8}},
                       {"blocks.0.up.weight", {32, 8}},
                       {"blocks.0.up.bias", {32}},
                       {"blocks.0.down.weight", {8, 32}},
                       {"blocks.0.down.bias", {8}},
                       {"final_norm.weight", {8}},
                       {"final_norm.bias", {8}}};
  EXPECT_EQ(named(model_of(kGptBlock, Positions::learned, true)), expected);
}

TEST(SpecModelSpec, ALlamaModelHasGroupedHeadsOfTheirOwnWidthAndAGatedFeedForward) {
  const Named expected{{"embedding", {50, 8}},
                       {"blocks.0.norm1.weight", {8}},
                       {"blocks.0.qkv.weight", {32, 8}},
                       {"blocks.0.out.weight", {8, 16}},
                       {"blocks.0.norm2.weight", {8}},
                       {"blocks.0.gate_up.weight", {48, 8}},
                       {"blocks.0.down.weight", {8, 24}},
                       {"final_norm.weight", {8}},
                       {"head.weight", {50, 8}}};
  EXPECT_EQ(named(model_of(kLlamaBlock, Positions::rotary, false)), expected);
}

TEST(SpecModelSpec, CountsAreTheSumOfTheTensors) {
  const ModelSpec model = model_of(kLlamaBlock, Positions::rotary, false);
  const std::int64_t by_hand = 2 * 50 * 8 + 8 + 32 * 8 + 8 * 16 + 8 + 48 * 8 + 8 * 24 + 8;
  EXPECT_EQ(parameter_counts(model), (ParameterCounts{by_hand, by_hand, by_hand}));
}

TEST(SpecModelSpec, LayersAreFoundAcrossRuns) {
  ModelSpec model = model_of(kGptBlock, Positions::rotary, false);
  model.runs = {{2, kGptBlock}, {3, kLlamaBlock}};
  EXPECT_EQ(model.layers(), 5);
  EXPECT_EQ(model.block(0), kGptBlock);
  EXPECT_EQ(model.block(1), kGptBlock);
  EXPECT_EQ(model.block(2), kLlamaBlock);
  EXPECT_EQ(model.block(4), kLlamaBlock);
  EXPECT_THROW(model.block(5), std::out_of_range);
  EXPECT_EQ(named(model).back().first, "head.weight");
  EXPECT_EQ(named(model)[1 + 12 + 12].first, "blocks.2.norm1.weight");
}

}  // namespace
}  // namespace planwright
