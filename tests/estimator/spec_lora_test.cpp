#include <gtest/gtest.h>

#include <map>
#include <string>

#include "estimator/models.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/spec/lora.h"
#include "estimator/spec/model_part.h"
#include "tests/support/fake_traits.h"

namespace planwright {
namespace {

using testing::tiny_gpt;
using testing::tiny_llama;
using enum LoraTarget;

ModelSpec adapted(ModelSpec model, std::int64_t rank, std::vector<LoraTarget> targets) {
  model.lora = {rank, std::move(targets)};
  return model;
}

/// Source: what PEFT's print_trainable_parameters says of Llama-2-7B with rank 8 on q_proj and
/// v_proj: 32 blocks x 2 modules x 8 x (4096 + 4096).
TEST(SpecLora, CountsTheAdaptersOfLlama) {
  const ModelSpec base = estimator::find_model("llama-2-7b", "", "");
  const ParameterCounts counts = parameter_counts(adapted(base, 8, {q_proj, v_proj}));
  EXPECT_EQ(counts.trainable, 4194304);
  EXPECT_EQ(counts.total, 6738415616 + 4194304);
  EXPECT_EQ(parameter_counts(base).trainable, 6738415616);
}

TEST(SpecLora, AnAdapterOfAPartIsOfItsRowsAlone) {
  const BlockSpec block = tiny_llama().block(0);  // 4 heads of 8, 2 key/value heads, ffn 40
  const LoraSpec lora{2, {v_proj, q_proj, up_proj, down_proj, o_proj}};
  const auto qkv = adapters_of(lora, block, 24, BlockMatrix::qkv);
  ASSERT_EQ(qkv.size(), 2u);
  EXPECT_EQ(qkv[0].target, q_proj);
  EXPECT_EQ(qkv[1].first, 32 + 16);
  EXPECT_EQ(qkv[1].outputs, 16);
  EXPECT_EQ(qkv[1].inputs, 24);
  EXPECT_EQ(adapters_of(lora, block, 24, BlockMatrix::up)[0].first, 40) << "behind the gate";
  EXPECT_EQ(adapters_of(lora, tiny_gpt().block(0), 24, BlockMatrix::up)[0].first, 0);
  EXPECT_EQ(adapters_of(lora, block, 24, BlockMatrix::down)[0].inputs, 40);
  EXPECT_EQ(adapters_of(lora, block, 24, BlockMatrix::out)[0].outputs, 24);
}

TEST(SpecLora, EveryMatrixIsInAllLinear) {
  EXPECT_EQ(all_linear(tiny_llama().block(0)).size(), 7u);
  EXPECT_EQ(all_linear(tiny_gpt().block(0)).size(), 6u);
  for (const ModelSpec& model : {tiny_llama(), tiny_gpt()}) {
    EXPECT_EQ(broken_targets({1, all_linear(model.block(0))}, model.block(0)), "");
  }
}

TEST(SpecLora, TargetsThatTheBlockHasNotOrHasTwiceAreNamed) {
  const BlockSpec gated = tiny_llama().block(0), plain = tiny_gpt().block(0);
  EXPECT_NE(broken_targets({1, {gate_proj}}, plain).find("MLP has none"), std::string::npos);
  EXPECT_EQ(broken_targets({1, {gate_proj}}, gated), "");
  EXPECT_NE(broken_targets({1, {qkv_proj, k_proj}}, gated).find("k_proj twice"), std::string::npos);
  EXPECT_NE(broken_targets({1, {gate_up_proj, up_proj}}, gated).find("up_proj twice"),
            std::string::npos);
  EXPECT_NE(broken_targets({1, {}}, gated), "");
  EXPECT_EQ(broken_targets({0, {}}, gated), "");
}

/// Every element of every adapter is on some rank, and what two ranks hold is summed.
TEST(SpecLora, TensorRanksShareTheAdaptersAsTheyShareTheMatrices) {
  const ModelSpec model = adapted(tiny_llama(), 3, {q_proj, qkv_proj, o_proj, gate_up_proj});
  constexpr int kTp = 2;
  std::map<std::string, std::int64_t> held;
  for (int rank = 0; rank < kTp; ++rank) {
    for (const PartTensor& part : part_tensors(model, model_part(model, {.tp = kTp}, rank))) {
      if (!part.tensor.trained) continue;
      held[part.tensor.name] += part.tensor.numel();
      const bool whole = part.tensor.numel() == part.whole[0] * part.whole[1];
      EXPECT_EQ(part.partial_gradient, whole) << part.tensor.name;
    }
  }
  for (const ParameterTensor& tensor : parameter_tensors(model)) {
    if (!tensor.trained) continue;
    const bool first_of_pair = tensor.name.find("o_proj") == std::string::npos;
    const bool is_a = tensor.name.ends_with("lora_A");
    EXPECT_EQ(held[tensor.name], tensor.numel() * (first_of_pair == is_a ? kTp : 1)) << tensor.name;
  }
}

TEST(SpecLora, TrainedAndFrozenTensorsAreLaidOutApart) {
  ModelSpec model = tiny_gpt();
  model.tied_embeddings = true;
  const std::int64_t whole = parameter_counts(model).total;
  EXPECT_EQ(frozen_layout(model, whole_model(model), 1).numel, 0);
  model = adapted(model, 2, {q_proj});
  const auto numel = [](const FlatLayout& layout) {
    std::int64_t sum = 0;
    for (const FlatTensor& tensor : layout.tensors) sum += tensor.numel;
    return sum;
  };
  EXPECT_EQ(numel(frozen_layout(model, whole_model(model), 1)), whole);
  EXPECT_EQ(numel(flat_layout(model, 1, 1000)), 2 * 2 * (24 + 24));
  for (int rank = 0; rank < 2; ++rank) {  // nothing to sum between the two ends
    for (const FlatBucket& bucket : flat_layout(model, {.pp = 2}, rank, 1000).buckets) {
      EXPECT_FALSE(bucket.shared);
    }
  }
}

}  // namespace
}  // namespace planwright
