#include "estimator/hf_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "estimator/kernel_script.h"
#include "tests/support/net_bytes.h"

namespace planwright::estimator {
namespace {

using Turn = StepProgram::Turn;

using testing::net;

BlockSpec block_of(bool llama) {
  BlockSpec block{.heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 96, .qkv_bias = !llama};
  if (!llama) return block;
  block.kv_heads = 2;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  return block;
}

/// What is left of a micro-batch of two blocks.
std::int64_t left(const StepShape& shape, const BlockSpec& block, bool recompute) {
  StepShape s = shape;
  s.dropped_blocks = recompute ? 2 : 0;
  const HfProgram program(s);
  const Turn forward = recompute ? Turn::forward_dropped : Turn::forward_kept;
  const Turn backward = recompute ? Turn::rebuild_and_backward : Turn::backward;
  const StepProgram::Head head = program.head(block);
  const auto& [count, logits, loss, to_logits, to_norm, back] = head.chunks.front();
  std::int64_t bytes = net(program.embedding()) + net(program.embedding_backward());
  for (const Turn turn : {forward, backward}) bytes += 2 * net(program.block(turn, true, block));
  for (const Script* part :
       {&head.before, &logits, &loss, &to_logits, &to_norm, &back, &head.after}) {
    bytes += net(*part);
  }
  return bytes;
}

/// Every kind of weights that modules may see.
std::vector<StepShape> shapes(bool llama) {
  std::vector<StepShape> all;
  StepShape plain{.batch = 2, .seq = 32, .hidden = 64, .vocab = 500, .compute = DType::bf16};
  plain.rotary = llama;
  plain.modules.fused_qkv = !llama;
  all.push_back(plain);  // fp32 alone
  StepShape mixed = plain;
  mixed.modules.autocast = true;
  all.push_back(mixed);
  StepShape half = plain;
  half.modules.stream = half.modules.weights = half.modules.norms = DType::bf16;
  all.push_back(half);
  half.lora = {4, {LoraTarget::q_proj, LoraTarget::v_proj, LoraTarget::o_proj}};
  half.modules.adapter_dropout = true;
  all.push_back(half);
  half.modules.autocast = true;
  all.push_back(half);
  half.modules.quantised = true;
  half.modules.stream = llama ? DType::bf16 : DType::fp32;  // LayerNorm's under autocast
  all.push_back(half);
  half.modules.norms = half.modules.stream = DType::fp32;
  all.push_back(half);
  return all;
}

/// Weights' gradients are made on the way back through the product, when the logits' are gone.
TEST(HfProgram, GoesBackThroughTheLossBeforeItDoesThroughTheHead) {
  const StepShape s = shapes(true).front();
  const StepProgram::Head head = HfProgram(s).head(block_of(true));
  const StepProgram::Chunk& chunk = head.chunks.front();
  const auto made = [](const Script& script, Account account) {
    std::int64_t bytes = 0;
    for (const Event& event : script.events()) {
      const bool counts = event.kind == Event::Kind::make && event.account == account;
      if (counts) bytes += event.bytes;
    }
    return bytes;
  };
  EXPECT_EQ(made(chunk.loss_backward, Account::gradients), 0);
  EXPECT_GT(made(chunk.loss_backward, Account::logits), 0);
  EXPECT_EQ(made(chunk.product_backward, Account::gradients), 4 * s.vocab * s.hidden);
  EXPECT_EQ(made(chunk.backward, Account::logits), 0);
}

/// Of a CPU's kernel, as the built-in runtime has it there.
TEST(HfProgram, GivesAttentionItsWorkspace) {
  StepShape s = shapes(true).front();
  for (const bool on_accelerator : {true, false}) {
    s.modules.on_accelerator = on_accelerator;
    std::vector<std::int64_t> workspaces;
    for (const Turn turn : {Turn::forward_kept, Turn::backward}) {
      const Script script = HfProgram(s).block(turn, true, block_of(true));
      for (const Event& event : script.events()) {
        if (event.kind == Event::Kind::call) workspaces.push_back(event.bytes);
      }
    }
    const std::vector<std::int64_t> expected{attention_forward_workspace(s, block_of(true)),
                                             attention_backward_workspace(s, block_of(true))};
    EXPECT_EQ(workspaces, on_accelerator ? std::vector<std::int64_t>{} : expected);
  }
}

TEST(HfProgram, LeavesNothingOfAMicroBatch) {
  for (const bool llama : {true, false}) {
    for (StepShape s : shapes(llama)) {
      for (const LossKernel loss : {LossKernel::plain, LossKernel::fused, LossKernel::chunked}) {
        for (const bool recompute : {true, false}) {
          for (const bool dropout : {true, false}) {
            s.loss = loss;
            s.hidden_dropout = s.attention_dropout = dropout;
            EXPECT_EQ(left(s, block_of(llama), recompute), 0)
                << llama << word(loss) << recompute << dropout << " quantised "
                << s.modules.quantised << " stream " << word(s.modules.stream);
          }
        }
      }
    }
  }
}

TEST(HfProgram, LeavesNothingUnderOtherKernelsAndVersions) {
  for (const LossStyle style :
       {LossStyle::in_model, LossStyle::function, LossStyle::narrow, LossStyle::by_caller}) {
    for (const bool fused : {true, false}) {
      StepShape s = shapes(true)[2];
      s.modules.loss = style;
      s.modules.reentrant = !fused;
      s.modules.fused_norms = s.modules.fused_rotary = s.modules.fused_swiglu = fused;
      s.modules.repeats_kv = !fused;
      s.modules.returns_cache = fused;
      s.attention = fused ? AttentionKernel::flash : AttentionKernel::eager;
      EXPECT_EQ(left(s, block_of(true), true), 0) << word(style) << fused;
      s.modules.returns_cache = false;
      EXPECT_EQ(left(s, block_of(true), false), 0) << word(style) << fused;
    }
  }
}

/// Gradients that are added to earlier ones go at once.
TEST(HfProgram, LaterBackwardsHoldOneGradientAtATime) {
  StepShape s = shapes(true)[2];
  const auto peak = [&](bool sums) {
    s.sums_gradients = sums;
    std::int64_t live = 0, most = 0;
    const Script script = HfProgram(s).block(Turn::backward, true, block_of(true));
    for (const Event& event : script.events()) {
      if (event.account != Account::gradients) continue;
      live += event.kind == Event::Kind::make ? event.bytes : -event.bytes;
      most = std::max(most, live);
    }
    return most;
  };
  EXPECT_EQ(peak(true), 2 * 64 * 96);                       // the largest matrix
  EXPECT_EQ(peak(false), 2 * (3 * 64 * 96 + 3 * 64 * 64));  // all of them
}

}  // namespace
}  // namespace planwright::estimator
