#include <gtest/gtest.h>

#include "estimator/hf_program.h"
#include "tests/support/net_bytes.h"

/// What a block keeps for its backward, against closed forms.
namespace planwright::estimator {
namespace {

using Turn = StepProgram::Turn;

constexpr std::int64_t kHidden = 1024, kFfn = 2816, kHeads = 16, kKvHeads = 4, kSeq = 512;

BlockSpec llama() {
  return {.heads = kHeads,
          .kv_heads = kKvHeads,
          .head_dim = kHidden / kHeads,
          .ffn = kFfn,
          .mlp = MlpKind::gated,
          .activation = Activation::silu,
          .norm = NormKind::rms_norm};
}

StepShape half_precision(AttentionKernel attention = AttentionKernel::flash) {
  StepShape s{.batch = 1, .seq = kSeq, .hidden = kHidden, .compute = DType::bf16};
  s.attention = attention;
  s.modules.stream = s.modules.weights = s.modules.norms = s.modules.adapters = DType::bf16;
  return s;
}

using testing::net;

/// Kept beside the block's output, its input included, which is as large as that.
std::int64_t kept(const StepShape& shape, const BlockSpec& block) {
  return net(HfProgram(shape).block(Turn::forward_kept, true, block));
}

/// (12 + 4 kv/heads) bsh + 8 bs ffn, where norms and rotary positions are one kernel each: of a
/// norm its input and output, q, k, v, attention's output, and four times the MLP's width. The form
/// that is often quoted has 10: it leaves out the input of the MLP.
TEST(HfExamples, ALlamaBlockKeepsTheClosedForm) {
  StepShape s = half_precision();
  s.modules.fused_norms = s.modules.fused_rotary = true;
  const std::int64_t rows = kSeq * (12 * kHidden + 4 * kHidden * kKvHeads / kHeads + 8 * kFfn);
  const std::int64_t statistics = 4 * kSeq * (2 + kHeads);  // of two norms, of attention
  EXPECT_EQ(kept(s, llama()), rows + statistics);
}

/// 5 b heads s² of eager attention with dropout in half precision: weights, mask, dropped weights.
/// One byte more where softmax is computed in fp32 first: its output is 4 bytes, and cast.
TEST(HfExamples, FlashAttentionKeepsNoScores) {
  const BlockSpec gpt2{.heads = kHeads,
                       .kv_heads = kHeads,
                       .head_dim = kHidden / kHeads,
                       .ffn = 4 * kHidden,
                       .qkv_bias = true,
                       .out_bias = true,
                       .mlp_bias = true};
  StepShape flash = half_precision();
  StepShape eager = half_precision(AttentionKernel::eager);
  for (StepShape* s : {&flash, &eager}) {
    s->rotary = false;
    s->modules.fused_qkv = true;
    s->attention_dropout = true;
  }
  const std::int64_t scores = kHeads * kSeq * kSeq, lse = 4 * kHeads * kSeq;
  // Without a batch the copies of the products' operands are none, and attention's output, which
  // flash keeps, is the output product's input in both.
  const std::int64_t more = kept(eager, gpt2) - kept(flash, gpt2);
  EXPECT_EQ(more, 5 * scores - lse);
}

TEST(HfExamples, CheckpointingAfterFlashAttentionSavesLess) {
  const auto saved = [](AttentionKernel attention) {
    return kept(half_precision(attention), llama()) - half_precision().local_unit();
  };
  EXPECT_GT(saved(AttentionKernel::eager), saved(AttentionKernel::flash) * 3 / 2);
}

/// Gradients flow through the frozen block: what its attention and MLP keep stays, adapters keep
/// their inputs besides, and only inputs of frozen products go.
TEST(HfExamples, LoraLeavesTheBasesActivations) {
  using enum LoraTarget;
  const std::int64_t full = kept(half_precision(), llama());
  StepShape s = half_precision();
  s.lora = {16, {q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj}};
  s.modules.adapters = DType::fp32;
  s.modules.autocast = true;
  EXPECT_GT(kept(s, llama()), full);
  s.lora.targets = {q_proj, v_proj};
  EXPECT_GT(kept(s, llama()), full * 3 / 4);
}

}  // namespace
}  // namespace planwright::estimator
