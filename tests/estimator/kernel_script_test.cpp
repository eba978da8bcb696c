#include "estimator/kernel_script.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/fake_traits.h"

namespace planwright::estimator {
namespace {

using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_gpt;
using testing::tiny_llama;

StepShape shape_of(const ModelSpec& model, Precision precision, int micro_batch = 1,
                   int threads = 1) {
  Problem problem = fake_problem(model, 1, precision);
  problem.cluster.threads_per_rank = threads;
  return step_shape(problem, fake_traits(), data_parallel(1, 0, micro_batch));
}

using Append = std::function<void(Script&, const StepShape&)>;

/// The most bytes that a kernel has besides its arguments and results.
std::int64_t transients(const StepShape& shape, const Append& append) {
  Script script;
  append(script, shape);
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(script);
  EXPECT_EQ(simulator.live(), Ledger{}) << "what a kernel makes it releases";
  return simulator.peaks(Phase::forward).tensors.tensors().value;
}

const Append kNormForward = [](Script& s, const StepShape& at) {
  norm_forward(s, at, {NormKind::rms_norm, at.tokens(), at.hidden});
};
const Append kRmsBackward = [](Script& s, const StepShape& at) {
  norm_backward(s, at, {NormKind::rms_norm, at.tokens(), at.hidden});
};
const Append kLayerNormBackward = [](Script& s, const StepShape& at) {
  norm_backward(s, at, {NormKind::layer_norm, at.tokens(), at.hidden});
};
const Append kHeadNormBackward = [](Script& s, const StepShape& at) {
  norm_backward(s, at, {NormKind::rms_norm, 4 * at.tokens(), 8});
};
BlockSpec windowed(std::int64_t window) {
  BlockSpec block = tiny_llama().runs[0].block;
  block.sliding_window = window;
  return block;
}
const Append kSoftmax = [](Script& s, const StepShape& at) { causal_softmax(s, at, windowed(0)); };
const Append kWindowedSoftmax = [](Script& s, const StepShape& at) {
  causal_softmax(s, at, windowed(5));
};
const Append kSoftmaxBackward = [](Script& s, const StepShape& at) {
  softmax_backward(s, at, windowed(0));
};
const Append kRotate = [](Script& s, const StepShape& at) { rotate(s, at, 48); };
const Append kGatedBackward = [](Script& s, const StepShape& at) { gated_backward(s, at, 40); };
const Append kCrossEntropy = [](Script& s, const StepShape& at) {
  cross_entropy(s, at, at.tokens());
};
const Append kFused = [](Script& s, StepShape at) {
  at.loss = LossKernel::fused;
  cross_entropy(s, at, 1000);
};
const Append kEmbedBackward = embed_backward;
const Append kWeightGradient = [](Script& s, const StepShape& at) {
  weight_gradient(s, at, "w", 10, 24);
};
const Append kBiasGradient = [](Script& s, const StepShape& at) {
  bias_gradient(s, at, at.tokens(), 1000);
};

struct TransientCase {
  const char* what;
  Append append;
  Precision precision;
  KernelSet kernels;
  std::int64_t bytes;
};

/// 16 tokens, h 24, two threads, on a CPU.
TEST(KernelTransients, AreThoseThatTheRuntimeStates) {
  constexpr auto kOwn = KernelSet::in_place;
  constexpr auto kComposed = KernelSet::composed;
  constexpr std::int64_t kRow = 4 * 16 * 24;  // a hidden activation in fp32
  const TransientCase cases[] = {
      {"norm forward", kNormForward, Precision::fp32, kOwn, 0},
      {"norm forward", kNormForward, Precision::bf16, kComposed, 2 * kRow + 12},
      {"norm forward", kNormForward, Precision::fp64, kComposed, 4 * kRow + 16},
      {"rms norm backward", kRmsBackward, Precision::bf16, kOwn, 4 * 2 * 24},
      {"layer norm backward", kLayerNormBackward, Precision::fp32, kOwn, 2 * 4 * 2 * 24},
      {"rms norm backward", kRmsBackward, Precision::fp32, kComposed, 3 * kRow + 4 * 24},
      {"rotary positions", kRotate, Precision::fp32, kOwn, 0},
      {"rotary positions", kRotate, Precision::bf16, kComposed, 3 * 4 * 16 * 24},
      {"gated backward", kGatedBackward, Precision::fp32, kOwn, 0},
      {"gated backward", kGatedBackward, Precision::bf16, kComposed, 2 * 16 * 40},
      {"cross entropy", kCrossEntropy, Precision::fp32, kOwn, 0},
      {"cross entropy", kCrossEntropy, Precision::fp64, kComposed, 4 * 8 * 16 + 8},
      {"fused cross entropy", kFused, Precision::bf16, kOwn, 0},
      // 256 rows of logits in fp32; four numbers of each, which are summed as doubles
      {"fused cross entropy", kFused, Precision::bf16, kComposed, 256 * (4 * 50 + 4 * 4 + 8) + 8},
      {"norm of heads", kHeadNormBackward, Precision::bf16, kOwn, 4 * 2 * 8},
      {"norm of heads", kHeadNormBackward, Precision::fp32, kComposed,
       3 * 4 * 16 * 32 + 4 * 16 * 4 + 12},
      {"softmax", kSoftmax, Precision::bf16, kOwn, 0},
      {"softmax", kSoftmax, Precision::bf16, kComposed, 2 * 4 * 256 + 256},
      {"softmax in a window", kWindowedSoftmax, Precision::fp32, kComposed, 4 * 4 * 256 + 2 * 256},
      {"softmax backward", kSoftmaxBackward, Precision::fp32, kOwn, 0},
      {"softmax backward", kSoftmaxBackward, Precision::fp32, kComposed, 4 * 4 * 16},
      {"embedding backward", kEmbedBackward, Precision::bf16, kOwn, 0},
      {"embedding backward", kEmbedBackward, Precision::bf16, kComposed, kRow},
      {"weight gradient", kWeightGradient, Precision::fp32, kOwn, 0},
      {"weight gradient", kWeightGradient, Precision::bf16, kOwn, 2 * 240},
      {"weight gradient", kWeightGradient, Precision::bf16, kComposed, 2 * 240 + 4 * 240},
      {"bias gradient", kBiasGradient, Precision::fp32, kOwn, 4 * 2 * 1000},
      {"bias gradient", kBiasGradient, Precision::fp32, kComposed, 4 * 1000},
      {"bias gradient", kBiasGradient, Precision::bf16, kComposed, 4 * 16 * 1000 + 4 * 1000},
  };
  for (const TransientCase& each : cases) {
    StepShape shape = shape_of(tiny_llama(), each.precision, 1, 2);
    shape.kernels = each.kernels;
    EXPECT_EQ(transients(shape, each.append), each.bytes)
        << each.what << " " << word(each.precision)
        << (each.kernels == kOwn ? " in place" : " composed");
  }
}

/// A gradient as narrow as the activations is added to without a copy.
TEST(KernelTransients, OfNarrowGradientsHaveNoWideCopies) {
  StepShape shape = shape_of(tiny_gpt(), Precision::bf16, 1, 2);
  shape.gradient = DType::bf16;
  EXPECT_EQ(transients(shape, kWeightGradient), 0);
  EXPECT_EQ(transients(shape, kBiasGradient), 4 * 2 * 1000) << "threads sum wide";
  EXPECT_EQ(transients(shape, kEmbedBackward), 0);
  shape.kernels = KernelSet::composed;
  EXPECT_EQ(transients(shape, kWeightGradient), 0);
  EXPECT_EQ(transients(shape, kBiasGradient), 2 * 1000);
  EXPECT_EQ(transients(shape, kEmbedBackward), 0);
}

/// A share of the vocabulary needs each token's row and whether it is there (8 and 1 bytes), and
/// masks the gradient of the others' tokens.
TEST(KernelTransients, OfAShareOfTheVocabularyMaskTheOthersTokens) {
  StepShape shape = shape_of(tiny_gpt(), Precision::fp32);
  shape.kernels = KernelSet::composed;
  EXPECT_EQ(transients(shape, kEmbedBackward), 0);
  shape.tp = 2;
  EXPECT_EQ(transients(shape, kEmbedBackward), 9 * 16 + 4 * 16 * 24);
  EXPECT_EQ(transients(shape, kRotate), 0) << "learned positions turn nothing";
}

TEST(KernelTransients, OnAnAcceleratorNumbersStayOnTheHost) {
  StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  shape.kernels = KernelSet::composed;
  shape.device = DeviceKind::cuda;
  EXPECT_EQ(transients(shape, kNormForward), 2 * 4 * 16 * 24);
}

TEST(KernelTransients, OfAnAcceleratorsAttentionAreTensors) {
  const BlockSpec block = tiny_gpt().runs[0].block;
  const Append backward = [&](Script& script, const StepShape& at) {
    attention_backward(script, at, block);
  };
  StepShape shape = shape_of(tiny_gpt(), Precision::fp32);
  EXPECT_EQ(transients(shape, backward), 0);
  shape.device = DeviceKind::cuda;
  EXPECT_EQ(transients(shape, backward), attention_backward_workspace(shape, block));
}

struct WorkspaceCase {
  std::int64_t seq;
  int threads;
  Precision precision;
  std::int64_t forward, backward;
};

/// head_dim 8, 4 heads, one sequence. qs is 32, 64 or 256 by s, cut to s; ks = min(512, s).
TEST(AttentionWorkspace, FollowsTheKernelsTiles) {
  const WorkspaceCase cases[] = {
      // qs 16, ks 16: 4·16·(16 + 2 + 8); 2·4·16·16 + 4·16
      {16, 1, Precision::fp32, 4 * 16 * 26, 2 * 4 * 256 + 64},
      {191, 1, Precision::fp32, 4 * 32 * 201, 2 * 4 * 32 * 191 + 4 * 32},
      {192, 2, Precision::fp32, 4 * 2 * 64 * 202, 2 * 4 * 2 * 64 * 192 + 4 * 64 * 2},
      {767, 1, Precision::fp32, 4 * 64 * 522, 2 * 4 * 64 * 512 + 4 * 64},
      {768, 1, Precision::fp32, 4 * 256 * 522, 2 * 4 * 256 * 512 + 4 * 256},
      // bf16: a copy of each tile in two bytes; more threads than heads have nothing to do
      {768, 8, Precision::bf16, 4 * 8 * 256 * 522 + 2 * 8 * 256 * 512,
       (2 * 4 + 4) * 8 * 256 * 512 + 4 * 256 * 4},
  };
  for (const WorkspaceCase& each : cases) {
    StepShape shape = shape_of(tiny_llama(), each.precision, 1, each.threads);
    shape.seq = each.seq;
    const BlockSpec block = tiny_llama().runs[0].block;
    EXPECT_EQ(attention_forward_workspace(shape, block), each.forward) << each.seq;
    EXPECT_EQ(attention_backward_workspace(shape, block), each.backward) << each.seq;
  }
}

/// On an accelerator: dq in four bytes with s rounded to 128 and head_dim to 32, one sum per row,
/// and dk, dv for every query head when there are fewer key heads.
TEST(AttentionWorkspace, OfAnAcceleratorAccumulatesWidely) {
  StepShape shape = shape_of(tiny_llama(), Precision::bf16);
  shape.device = DeviceKind::cuda;
  EXPECT_EQ(attention_forward_workspace(shape, tiny_llama().runs[0].block), 0);
  EXPECT_EQ(attention_backward_workspace(shape, tiny_llama().runs[0].block),
            4 * 4 * 128 * (32 + 1) + 2 * 2 * 16 * 4 * 8);
  EXPECT_EQ(attention_backward_workspace(shape, tiny_gpt().runs[0].block), 4 * 3 * 128 * 33);
}

}  // namespace
}  // namespace planwright::estimator
