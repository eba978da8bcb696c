#include "estimator/work.h"

#include <gtest/gtest.h>

#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_gpt;
using testing::tiny_llama;

StepShape shape_of(const ModelSpec& model, Precision precision) {
  return step_shape(fake_problem(model, 1, precision), fake_traits(), data_parallel(1, 0, 1));
}

TEST(CausalPairs, CountEachPairOfQueryAndEarlierKeyOnce) {
  EXPECT_EQ(causal_pairs(1, 0), 1);
  EXPECT_EQ(causal_pairs(4, 0), 1 + 2 + 3 + 4);
  EXPECT_EQ(causal_pairs(4, 2), 1 + 2 + 2 + 2);
  EXPECT_EQ(causal_pairs(4, 4096), causal_pairs(4, 0));
}

/// 16 tokens; weights 24·64 + 32·24 + 24·80 + 40·24 = 5184; attention of 4 heads of 8 over
/// 16·17/2 = 136 pairs: 2·2·4·8·136 forward, 5/2 of it backward.
TEST(BlockWork, CountsTheFlopsOfProductsAndAttention) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  const BlockSpec block = tiny_llama().runs[0].block;
  EXPECT_EQ(block_forward_work(shape, block).matrix_flops, 2.0 * 16 * 5184);
  EXPECT_EQ(block_forward_work(shape, block).attention_flops, 4.0 * 32 * 136);
  EXPECT_EQ(block_backward_work(shape, block).matrix_flops, 4.0 * 16 * 5184);
  EXPECT_EQ(block_backward_work(shape, block).attention_flops, 10.0 * 32 * 136);
  EXPECT_EQ(block_rebuild_work(shape, block, false).matrix_flops, 2.0 * 16 * (5184 - 960));
}

/// Again are wk 24·16, wo 32·24 and w3 24·40; the saved attention is not.
TEST(BlockWork, LeavesOutWhatOperatorsSaved) {
  StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  const BlockSpec block = tiny_llama().runs[0].block;
  shape.saves_ops = true;
  const Work again = block_rebuild_work(shape, block, false);
  EXPECT_EQ(again.matrix_flops, 2.0 * 16 * (24 * 16 + 32 * 24 + 24 * 40));
  EXPECT_EQ(again.attention_flops, 0);
}

/// Forward, elements per token: norms 4·24, rotary 2·(32 + 16), residuals 4·24, activation 80 + 40.
TEST(BlockWork, CountsTheBytesOfMemoryBoundKernels) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  const BlockSpec block = tiny_llama().runs[0].block;
  EXPECT_EQ(block_forward_work(shape, block).bytes, 4.0 * 16 * (96 + 96 + 96 + 120));
  EXPECT_EQ(block_rebuild_work(shape, block, false).bytes, 4.0 * 16 * (96 + 96 + 48 + 120));
}

/// 5184 weights, read in 4.5 bits and written in 16, in each of both directions and once more where
/// a forward is made again; by way of fp16 written and read in 16 besides.
TEST(BlockWork, CountsThePackedWeightsThatEachPassReads) {
  const BlockSpec block = tiny_llama().runs[0].block;
  const StepShape plain = shape_of(tiny_llama(), Precision::bf16);
  StepShape packed = plain;
  packed.modules.quantised = true;
  packed.stored_weight = 4.5 / 8;
  const auto more = [&](const auto& work) { return work(packed).bytes - work(plain).bytes; };
  const auto forward = [&](const StepShape& s) { return block_forward_work(s, block); };
  EXPECT_DOUBLE_EQ(more(forward), 5184 * (4.5 / 8 + 2));
  EXPECT_DOUBLE_EQ(more([&](const StepShape& s) { return block_backward_work(s, block); }),
                   5184 * (4.5 / 8 + 2));
  EXPECT_DOUBLE_EQ(more([&](const StepShape& s) { return block_rebuild_work(s, block, true); }),
                   5184 * (4.5 / 8 + 2));
  packed.modules.unpacks_through_half = true;
  EXPECT_DOUBLE_EQ(more(forward), 5184 * (4.5 / 8 + 2 + 2 + 2));
}

/// Two of four experts have a token, and all are unpacked.
TEST(BlockWork, UnpacksEveryExpert) {
  BlockSpec block = tiny_llama().runs[0].block;
  const StepShape plain = shape_of(tiny_llama(), Precision::bf16);
  StepShape packed = plain;
  packed.modules.quantised = true;
  const auto unpacked = [&] {
    return (block_forward_work(packed, block).bytes - block_forward_work(plain, block).bytes) / 2;
  };
  const double attention = unpacked() - 3.0 * 24 * 40;
  block.moe = MoeSpec{.experts = 4, .top_k = 2, .ffn = 40};
  EXPECT_DOUBLE_EQ(unpacked(), attention + 4 * 3.0 * 24 * 40);
}

TEST(BlockWork, HalfPrecisionAddsTheAccumulationOfWeightGradients) {
  const BlockSpec block = tiny_llama().runs[0].block;
  const Work fp32 = block_backward_work(shape_of(tiny_llama(), Precision::fp32), block);
  const Work bf16 = block_backward_work(shape_of(tiny_llama(), Precision::bf16), block);
  EXPECT_EQ(bf16.bytes, fp32.bytes / 2 + 5184.0 * (2 + 2 * 4));
  EXPECT_EQ(bf16.launches, fp32.launches + 4);
}

TEST(BlockWork, BiasesAndPositionsAddTheirKernels) {
  BlockSpec plain = tiny_gpt().runs[0].block;
  const StepShape shape = shape_of(tiny_gpt(), Precision::fp32);
  const Work with = block_backward_work(shape, plain);
  plain.qkv_bias = plain.out_bias = plain.mlp_bias = false;
  const Work without = block_backward_work(shape, plain);
  EXPECT_EQ(with.launches - without.launches, 4);
  EXPECT_EQ(with.bytes - without.bytes, 4.0 * 16 * (72 + 24 + 40 + 24));
}

/// Three products of 16 x 24 x 50.
TEST(EndsWork, CountsHeadAndEmbeddingInBothDirections) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  EXPECT_EQ(head_work(shape).matrix_flops, 6.0 * 16 * 24 * 50);
  // Loss 2·50; norm 6·24. Gather 2·24; scatter 24 + 2·24. Four bytes each.
  EXPECT_EQ(head_work(shape).bytes, 4.0 * 16 * (100 + 144));
  EXPECT_EQ(embedding_work(shape).bytes, 4.0 * 16 * (48 + 72));
}

TEST(EndsWork, LearnedPositionsAreASecondTable) {
  const StepShape learned = shape_of(tiny_gpt(), Precision::fp32);
  StepShape rotary = learned;
  rotary.rotary = true;
  EXPECT_EQ(embedding_work(learned).bytes - embedding_work(rotary).bytes, 4.0 * 16 * 24 * (1 + 3));
}

/// Products lead down to the latent vectors, up from them, and out of attention, whose values are
/// narrower than its keys.
TEST(BlockWork, OfLatentAttentionGoesThroughItsLatentVectors) {
  BlockSpec block{.heads = 2, .kv_heads = 2, .head_dim = 12, .ffn = 40};
  StepShape shape;
  shape.seq = 16;
  shape.hidden = 24;
  const double mlp = 2.0 * 16 * 24 * (40 + 40);
  block.latent =
      LatentSpec{.kv_rank = 6, .q_rank = 10, .nope_dim = 8, .rope_dim = 4, .value_dim = 5};
  const Work work = block_forward_work(shape, block);
  const double weights = 24 * (10 + 6 + 4) + 10 * 2 * 12 + 6 * 2 * (8 + 5) + 2 * 5 * 24;
  EXPECT_EQ(work.matrix_flops, mlp + 2.0 * 16 * weights);
  EXPECT_EQ(work.attention_flops, 2.0 * 2 * (12 + 5) * 136);
}

/// A rank has 4 of 8 experts 20 wide, of which a token uses 2, and a shared one 40 wide: what 2
/// more have is read, and its gradient added up in another type.
TEST(BlockWork, ReadsTheExpertsThatATokenDoesNotUse) {
  BlockSpec block{.heads = 2, .kv_heads = 2, .head_dim = 12};
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 20, .shared_ffn = 40};
  StepShape shape;
  shape.seq = 16;
  shape.hidden = 24;
  shape.ep = 2;
  const double two_experts = 2 * 24 * (20 + 20);
  EXPECT_DOUBLE_EQ(block_forward_work(shape, block).other_weights, two_experts);
  EXPECT_DOUBLE_EQ(block_backward_work(shape, block).other_weights, 2 * two_experts);
  const double summed_alike = block_weights_work(shape, block).bytes;
  shape.gradient = DType::fp64;
  const double weights = 4 * 24 * 24 + 24 * (4 * 20 + 40) * 2;
  EXPECT_DOUBLE_EQ(block_weights_work(shape, block).bytes - summed_alike, weights * (4 + 2 * 8));

  shape.seq = 1;  // two rows of experts, which reach no more than two
  EXPECT_DOUBLE_EQ(block_forward_work(shape, block).other_weights, 0);
}

TEST(BlockWork, OfExpertsInPartsReadsTheirParts) {
  BlockSpec block{.heads = 2, .kv_heads = 2, .head_dim = 12};
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 20};
  StepShape shape;
  shape.seq = 16;
  shape.hidden = 24;
  shape.tp = 2;
  // Eight whole experts, of which a token's share is one; then halves of eight.
  EXPECT_DOUBLE_EQ(block_forward_work(shape, block).other_weights, 7 * 24 * (20 + 20));
  shape.etp = 2;
  EXPECT_DOUBLE_EQ(block_forward_work(shape, block).other_weights, 3 * 24 * (20 + 20));
}

}  // namespace
}  // namespace planwright::estimator
