#include "estimator/te_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "te_shapes.h"

namespace planwright::estimator {
namespace {

constexpr std::int64_t kSeq = 64, kBatch = 2, kHidden = 48;
constexpr std::int64_t kRows = kSeq * kBatch;

BlockSpec gpt_block() { return testing::gpt_block(kHidden, 4 * kHidden); }
BlockSpec llama_block() { return testing::llama_block(kHidden, 4 * kHidden); }

/// With learned positions.
StepShape shape_of() {
  StepShape shape = testing::te_shape(kBatch, kSeq, kHidden);
  shape.rotary = false;
  return shape;
}

using testing::kHeads;
using testing::net;
using testing::state_of;

using Turn = StepProgram::Turn;

Ledger net_of_both(const TeProgram& program) {
  Simulator simulator;
  simulator.run(program.block(Turn::forward_kept, true, gpt_block()));
  simulator.run(program.block(Turn::backward, true, gpt_block()));
  return simulator.live();
}

/// Korthikanti et al., arXiv:2205.05198, equation 1: s b h (34 + 5 a s / h) bytes per layer, and
/// of two norms the mean and the deviation of each row.
TEST(TeProgram, KeepsWhatThePaperCounts) {
  StepShape shape = shape_of();
  shape.attention = AttentionKernel::eager;
  shape.hidden_dropout = shape.attention_dropout = true;
  EXPECT_EQ(state_of(shape, gpt_block()),
            34 * kRows * kHidden + 5 * kBatch * kHeads * kSeq * kSeq + 2 * 8 * kRows);
}

/// Equation 4: scores, their dropout and what it leaves are made again.
TEST(TeProgram, KeepsWhatAttentionTakesAndGivesWhereItIsMadeAgain) {
  StepShape shape = shape_of();
  shape.attention = AttentionKernel::eager;
  shape.hidden_dropout = shape.attention_dropout = true;
  const TeProgram whole(shape);
  shape.again.core_attn = true;
  const TeProgram again(shape);
  EXPECT_EQ(state_of(shape, gpt_block()), 34 * kRows * kHidden + 2 * 8 * kRows);
  const auto both = [](const TeProgram& program) {
    return net(program.block(Turn::forward_kept, true, gpt_block())) +
           net(program.block(Turn::backward, true, gpt_block()));
  };
  EXPECT_EQ(both(again), both(whole));
}

/// Of 32 s b h with cuDNN's attention: query, key, value and what attention gives, which the
/// projection takes. What goes to the host has 2 s b h of that twice, because both save it.
TEST(TeProgram, SendsWhatOffloadedModulesSaveToTheHost) {
  StepShape shape = shape_of();
  const TeProgram plain(shape);
  const std::int64_t whole = state_of(shape, gpt_block());
  shape.activations.modules = {.core_attn = true, .attn_proj = true};
  EXPECT_EQ(state_of(shape, gpt_block()), whole - 8 * kRows * kHidden);
  const TeProgram program(shape);
  Simulator simulator;
  simulator.run(program.block(Turn::forward_kept, true, gpt_block()));
  EXPECT_EQ(simulator.copies().here, 10 * kRows * kHidden);
  simulator.run(program.block(Turn::backward, true, gpt_block()));
  EXPECT_EQ(simulator.copies(), (HostCopies{.here = 0,
                                            .most = 10 * kRows * kHidden,
                                            .sent = 10 * kRows * kHidden,
                                            .fetched = 10 * kRows * kHidden}));
  EXPECT_EQ(simulator.live(), net_of_both(plain));
}

/// A norm that is one kernel with its product saves what it takes, which the block's output is
/// added to, and what it gives.
TEST(TeProgram, SendsTheInputOfAProductWithItsNorm) {
  StepShape shape = shape_of();
  const std::int64_t whole = state_of(shape, gpt_block());
  shape.activations.modules = {.qkv_linear = true};
  EXPECT_EQ(state_of(shape, gpt_block()), whole - 2 * 2 * kRows * kHidden);
  shape.activations.least_elements = kRows * kHidden + 1;
  EXPECT_EQ(state_of(shape, gpt_block()), whole) << "smaller ones stay";
}

TEST(TeProgram, GetsMasksOnce) {
  StepShape shape = shape_of();
  const std::int64_t plain = TeProgram(shape).ids().bytes;
  shape.te.gets_masks = true;
  const TeProgram program(shape);
  EXPECT_EQ(program.ids().bytes - plain, kBatch * kSeq * kSeq);
  EXPECT_EQ(program.targets({.first = true, .last = true}).bytes, 0);
  EXPECT_EQ(program.targets({.first = false, .last = true}).bytes, program.ids().bytes);
}

/// What a block's state loses with each module that is made again.
std::int64_t spared(BlockSpec block, RecomputedModules again, StepShape shape = shape_of()) {
  const std::int64_t whole = state_of(shape, block);
  shape.again = again;
  return whole - state_of(shape, block);
}

BlockSpec experts_block() {
  BlockSpec block = llama_block();
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 32, .shared_ffn = 96};
  return block;
}

BlockSpec latent_block() {
  BlockSpec block = experts_block();
  block.latent =
      LatentSpec{.kv_rank = 24, .q_rank = 40, .nope_dim = 8, .rope_dim = 4, .value_dim = 8};
  block.kv_heads = block.heads;
  block.head_dim = 12;
  return block;
}

/// Of gate and up, what the activation gives and the norm before them, its statistics included.
TEST(TeProgram, KeepsAnMlpsInputWhereItIsMadeAgain) {
  const std::int64_t ffn = 4 * kHidden;
  EXPECT_EQ(spared(llama_block(), {.mlp = true}), kRows * (2 * kHidden + 2 * 3 * ffn + 4));
  EXPECT_EQ(spared(experts_block(), {.mlp = true}), 0);
}

/// The activation's output for each expert that a token is sent to; its input and the
/// probabilities stay.
TEST(TeProgram, GivesBackWhatExpertsActivationsGive) {
  EXPECT_EQ(spared(experts_block(), {.moe_act = true}), 2 * kRows * 2 * 32);
}

/// What the router and the shared expert take, and its statistics; its input stays. Dense blocks'
/// norms are one kernel with the product behind them.
TEST(TeProgram, GivesBackWhatNormsBeforeExpertsGive) {
  EXPECT_EQ(spared(experts_block(), {.layernorm = true}), kRows * (2 * kHidden + 4));
  EXPECT_EQ(spared(llama_block(), {.layernorm = true}), 0);
  EXPECT_EQ(spared(latent_block(), {.layernorm = true}), 2 * kRows * (2 * kHidden + 4));
}

/// The shared expert's products and what its activation gives; its input is the router's as well.
TEST(TeProgram, KeepsASharedExpertsInputWhereItIsMadeAgain) {
  EXPECT_EQ(spared(experts_block(), {.shared_experts = true}), 2 * kRows * 3 * 96);
}

/// All but the norm's input, its output and its statistics.
TEST(TeProgram, KeepsAnExpertLayersInputWhereItIsMadeAgain) {
  StepShape shape = shape_of();
  shape.again.moe = true;
  const std::int64_t attention = state_of(shape_of(), llama_block()) -
                                 spared(llama_block(), {.mlp = true}) - 2 * kRows * kHidden;
  EXPECT_EQ(state_of(shape, experts_block()) - attention, kRows * (2 * 2 * kHidden + 4));
}

/// Queries, keys, values, and both norms' outputs and statistics: the latent vectors stay.
TEST(TeProgram, KeepsLatentVectorsWhereWhatLeadsUpIsMadeAgain) {
  EXPECT_EQ(spared(latent_block(), {.mla_up_proj = true}),
            kRows * (2 * kHeads * (12 + 12 + 8) + 2 * (40 + 24) + 2 * 4));
}

/// Whatever is made again, nothing of a block is left behind it.
TEST(TeProgram, LeavesNothingOfWhatIsMadeAgain) {
  const RecomputedModules all[] = {{.layernorm = true},
                                   {.mla_up_proj = true},
                                   {.moe = true},
                                   {.moe_act = true},
                                   {.shared_experts = true},
                                   {.core_attn = true,
                                    .layernorm = true,
                                    .mla_up_proj = true,
                                    .mlp = true,
                                    .moe = true,
                                    .moe_act = true,
                                    .shared_experts = true}};
  for (const RecomputedModules& again : all) {
    StepShape shape = shape_of();
    shape.again = again;
    const TeProgram program(shape);
    Simulator whole, remade;
    whole.run(program.block(Turn::forward_kept, true, latent_block()));
    whole.run(program.block(Turn::backward, true, latent_block()));
    remade.run(program.block(Turn::forward_dropped, true, latent_block()));
    remade.run(program.block(Turn::rebuild_and_backward, true, latent_block()));
    EXPECT_EQ(whole.live(), remade.live());
  }
}

/// Without the scores and masks, and with each query's log-sum-exp in their place.
TEST(TeProgram, KeepsNoScoresWithFusedAttention) {
  const std::int64_t lse = 4 * kRows * kHeads;
  EXPECT_EQ(state_of(shape_of(), gpt_block()), 32 * kRows * kHidden + lse + 2 * 8 * kRows);
}

/// Equation 2: what is between the products is divided, too.
/// Norms of query and key heads keep what they take, which the product gives in one tensor with
/// the value, and the deviation of each head; attention takes the value as a copy.
TEST(TeProgram, KeepsWhatNormsOfHeadsTake) {
  StepShape shape = shape_of();
  shape.rotary = true;
  BlockSpec block = llama_block();
  const std::int64_t plain = state_of(shape, block);
  block.qk_norm = true;
  const std::int64_t heads = block.heads + block.kv_heads;
  EXPECT_EQ(state_of(shape, block) - plain, kRows * heads * (2 * block.head_dim + 4));
  shape.rotary = false;
  EXPECT_EQ(state_of(shape, block) - plain, kRows * heads * (2 * block.head_dim + 4));
}

TEST(TeProgram, DividesAllWithSequenceParallelism) {
  StepShape shape = shape_of();
  const std::int64_t whole = state_of(shape, gpt_block());
  shape.tp = 2;
  shape.sp = true;
  EXPECT_EQ(state_of(shape, gpt_block()), whole / 2);
}

/// Before compute capability 9.0 flash-attn's own layout is a copy of the output.
TEST(TeProgram, KeepsTheOutputTwiceWithFlashAttn) {
  StepShape shape = shape_of();
  const std::int64_t fused = state_of(shape, llama_block());
  shape.capability = 8;
  EXPECT_EQ(state_of(shape, llama_block()), fused + 2 * kRows * kHidden);
}

TEST(TeProgram, DropsAllThatItMakes) {
  for (const bool sp : {false, true}) {
    for (const BlockSpec& block : {gpt_block(), llama_block()}) {
      StepShape shape = shape_of();
      shape.tp = 2;
      shape.sp = sp;
      shape.rotary = block.norm == NormKind::rms_norm;
      const TeProgram program(shape);
      const std::int64_t kept = net(program.block(Turn::forward_kept, true, block));
      const std::int64_t unit = program.boundary().bytes;
      // The output and its gradient come; the input goes and its gradient stays.
      EXPECT_EQ(kept + net(program.block(Turn::backward, true, block)), 0);
      EXPECT_EQ(net(program.block(Turn::forward_dropped, true, block)), unit);
      EXPECT_EQ(net(program.block(Turn::forward_dropped, false, block)), 0);
      EXPECT_EQ(net(program.block(Turn::rebuild_and_backward, true, block)), -unit);
    }
  }
}

/// Each of the experts' rows keeps its input, gate and up, their product, and its probability.
TEST(TeProgram, KeepsWhatExpertsGetOfEachTokenOnce) {
  BlockSpec block = llama_block();
  block.ffn = 0;
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 32};
  StepShape shape = shape_of();
  shape.ep = 4;
  const std::int64_t rows = 2 * kRows;
  BlockSpec twice = block;
  twice.moe->top_k = 4;
  EXPECT_EQ(state_of(shape, twice) - state_of(shape, block),
            rows * (2 * kHidden + 4 * 32 + 2 * 32 + 4));
}

/// Where a rank of experts has all ranks' tokens it keeps none of them but its own.
TEST(TeProgram, KeepsNoMoreWhereTokensAreGathered) {
  BlockSpec block = llama_block();
  block.ffn = 0;
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 32};
  StepShape shape = shape_of();
  shape.ep = 4;
  const std::int64_t sent = state_of(shape, block), maps = 4 * kRows * (2 * 8 + 1);
  shape.te.gathers_tokens = true;
  EXPECT_EQ(state_of(shape, block) - sent, 8 * 2 * kRows + 4 * kRows * 2 - maps);
}

/// Without SwiGLU's kernel the probability is a product of its own, which keeps both operands.
TEST(TeProgram, KeepsPlainExpertsProductsTwice) {
  BlockSpec block = gpt_block();
  block.ffn = 0;
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 32};
  BlockSpec twice = block;
  twice.moe->top_k = 4;
  const StepShape shape = shape_of();
  EXPECT_EQ(state_of(shape, twice) - state_of(shape, block),
            2 * kRows * (2 * kHidden + 3 * 2 * 32 + 4));
}

std::int64_t most(const Script& script) {
  std::int64_t bytes = 0, peak = 0;
  for (const Event& event : script.events()) {
    if (event.kind == Event::Kind::make) bytes += event.bytes;
    if (event.kind == Event::Kind::drop) bytes -= event.bytes;
    peak = std::max(peak, bytes);
  }
  return peak;
}

/// Weights' gradients that are not summed by the products come and go one by one.
TEST(TeProgram, MakesGradientsOfWeightsApart) {
  const auto backward = [](bool sums) {
    StepShape shape = shape_of();
    shape.te.sums_wgrad = sums;
    return TeProgram(shape).block(Turn::backward, true, gpt_block());
  };
  EXPECT_EQ(net(backward(false)), net(backward(true)));
  EXPECT_GT(most(backward(false)), most(backward(true)));
}

/// On Blackwell cuDNN's results do not repeat; flash-attn's output is then kept twice.
TEST(TeProgram, TakesFlashAttnOnBlackwellWhereResultsMustRepeat) {
  StepShape shape = shape_of();
  const std::int64_t fused = state_of(shape, gpt_block());
  shape.te.deterministic = true;
  EXPECT_EQ(state_of(shape, gpt_block()), fused) << "Hopper's do";
  shape.capability = 10;
  EXPECT_EQ(state_of(shape, gpt_block()), fused + 2 * kRows * kHidden);
}

}  // namespace
}  // namespace planwright::estimator
