#include "estimator/step_script.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "estimator/stage_script.h"
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

std::array<Peaks, kWordCount<Phase>> micro_batch_peaks(const StepShape& shape,
                                                       const ModelSpec& model, bool recompute) {
  const FlatLayout layout = flat_layout(model, 1, 1 << 20);
  const FlatLayout frozen = frozen_layout(model, whole_model(model), 1);
  Recompute how;
  if (recompute) how.kind = RecomputeKind::full;
  KeptPrograms programs;
  return stage_peaks({.model = model,
                      .part = whole_model(model),
                      .shape = shape,
                      .layout = layout,
                      .frozen = frozen,
                      .recompute = how},
                     programs);
}

std::int64_t tensors(const StepShape& shape, const ModelSpec& model, bool recompute, Phase phase) {
  const auto peaks = micro_batch_peaks(shape, model, recompute);
  return peaks[static_cast<std::size_t>(phase)].tensors.tensors().value;
}

/// The tiny Llama kind: h 24, A 32, K 16, f 40, v 50, s 16, b 1, two blocks, one thread.
///
/// fp32 (e = g = c = 4), bytes: u = 4·16·24 = 1536; stats = 4·16 = 64; qkv = 4·16·(32 + 2·16) =
/// 4096; out = 4·16·32 = 2048; lse = 4·1·4·16 = 256; gu = 4·16·80 = 5120; act = 4·16·40 = 2560;
/// logits = 4·16·50 = 3200; ids and targets 16·16 = 256. State S = 3u + 2·stats + qkv + out + lse +
/// gu + act = 4608 + 128 + 14080 = 18816. Forward ends at 256 + u + 2 (S + u) + u + stats + logits
///              = 256 + 1536 + 40704 + 1536 + 64 + 3200 = 47296, its peak: nothing was freed.
/// Backward begins there. After the head 256 + u + 2 (S + u) - u + u = 42496 are alive, and the
/// block holds at most d_out + dq + dk + dv = 6144 more once gu + act + n2 + stats2 + x1 = 10816
/// are gone, so the beginning is its peak.
TEST(MicroBatchPeaks, OfATinyLlamaInFp32AreTheHandDerivedOnes) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::forward), 47296);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::loss), 47296);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::backward), 47296);
}

/// With full recompute a block keeps its input only. Forward: the last block's y is made while its
/// state is alive: 256 + u + 1·u + S + u = 256 + 3·1536 + 18816 = 23680, more than the end
/// 256 + 3u + u + stats + logits = 9664. Backward: x_2 and logits are gone, dy is alive, the last
/// block makes its state again: 256 + u + u + u + S = 23680, and its last projection is not made.
TEST(MicroBatchPeaks, OfARecomputedTinyLlamaInFp32AreTheHandDerivedOnes) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  EXPECT_EQ(tensors(shape, tiny_llama(), true, Phase::forward), 23680);
  EXPECT_EQ(tensors(shape, tiny_llama(), true, Phase::loss), 9664);
  EXPECT_EQ(tensors(shape, tiny_llama(), true, Phase::backward), 23680);
}

/// bf16 with fp32 gradients (e = 2, g = c = 4): u = 768, stats = 64, lse = 256, the rest halves:
/// S = 3·768 + 128 + 2048 + 1024 + 256 + 2560 + 1280 = 9600; logits = 1600, upcast = 3200.
/// Forward ends at 256 + 768 + 2·(9600 + 768) + 768 + 64 + 1600 = 24192. The loss adds the upcast
/// logits before the low ones go: 24192 + 3200 = 27392. Backward adds the low gradient before those
/// go: 24192 - 1600 + 3200 + 1600 = 27392. The head's weight gradient, 24192 + 2·50·24 = 26592, and
/// the block's widest, 256 + 2·10368 + 768 - act 1280 + 2·80·24 = 24320, stay below.
TEST(MicroBatchPeaks, OfATinyLlamaInBf16AreTheHandDerivedOnes) {
  const StepShape shape = shape_of(tiny_llama(), Precision::bf16);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::forward), 24192);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::loss), 27392);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::backward), 27392);
}

/// A vocabulary of 2 takes the head out of the way: the widest instant is then the last block's
/// gradient of gate_up, 24320 as above.
TEST(MicroBatchPeaks, InBf16TheWeightGradientsCopyCanRule) {
  ModelSpec model = tiny_llama();
  model.vocab = 2;
  EXPECT_EQ(tensors(shape_of(model, Precision::bf16), model, false, Phase::backward), 24320);
}

/// fp64 doubles every float of fp32; ids and targets stay.
TEST(MicroBatchPeaks, InFp64AreTwiceThoseOfFp32ButForTheIds) {
  EXPECT_EQ(tensors(shape_of(tiny_llama(), Precision::fp64), tiny_llama(), false, Phase::forward),
            2 * (47296 - 256) + 256);
}

/// The tiny GPT kind: h = A = K = 24, f 40, v 50, s 16, b 1; layer norm has two statistics.
/// fp32: u = 1536, stats = 128, qkv = 3u = 4608, out = 1536, lse = 4·3·16 = 192, pre = act = 2560:
/// S = 3u + 256 + 4608 + 1536 + 192 + 5120 = 16320.
/// Forward ends at 256 + u + 2 (S + u) + u + stats + 3200 = 256 + 1536 + 35712 + 1536 + 128 + 3200.
TEST(MicroBatchPeaks, OfATinyGptInFp32AreTheHandDerivedOnes) {
  const StepShape shape = shape_of(tiny_gpt(), Precision::fp32);
  EXPECT_EQ(tensors(shape, tiny_gpt(), false, Phase::forward), 42368);
  EXPECT_EQ(tensors(shape, tiny_gpt(), false, Phase::backward), 42368);
}

/// With v = 2 and many threads the sums per thread rule. Norm backward of the head: x_2, nf and its
/// statistics are alive beside 256 + u + 2 S + u, so 37504 + u + 128 + 2·c·T·h = 39168 + 192 T.
TEST(MicroBatchPeaks, NormSumsCountOncePerThread) {
  ModelSpec model = tiny_gpt();
  model.vocab = 2;
  for (const int threads : {4, 16}) {
    EXPECT_EQ(tensors(shape_of(model, Precision::fp32, 1, threads), model, false, Phase::backward),
              39168 + 192 * threads);
  }
}

/// With more threads still it is qkv's bias, c·T·3h. When it is summed the last block has released
/// pre, act, n2, stats2, x1 (8320), out and lse (1728): 37504 - 10048 + 288 T.
TEST(MicroBatchPeaks, BiasSumsCountOncePerThread) {
  ModelSpec model = tiny_gpt();
  model.vocab = 2;
  EXPECT_EQ(tensors(shape_of(model, Precision::fp32, 1, 200), model, false, Phase::backward),
            27456 + 288 * 200);
}

TEST(MicroBatchPeaks, GrowLinearlyWithTheMicroBatchInFp32) {
  const auto at = [](int batch) {
    return tensors(shape_of(tiny_llama(), Precision::fp32, batch), tiny_llama(), false,
                   Phase::forward);
  };
  EXPECT_EQ(at(2), 2 * at(1));
  EXPECT_EQ(at(5), 5 * at(1));
}

TEST(MicroBatchPeaks, RecomputationNeverRaisesAPeak) {
  for (const ModelSpec& model : {tiny_llama(), tiny_gpt()}) {
    for (const Precision precision : {Precision::fp64, Precision::fp32, Precision::bf16}) {
      const StepShape shape = shape_of(model, precision, 2);
      for (const Phase phase : {Phase::forward, Phase::loss, Phase::backward}) {
        EXPECT_LE(tensors(shape, model, true, phase), tensors(shape, model, false, phase));
      }
    }
  }
}

TEST(MicroBatchPeaks, RunsOfUnequalBlocksCountEachBlock) {
  ModelSpec split = tiny_llama();
  split.runs = {{1, split.runs[0].block}, {1, split.runs[0].block}};
  const StepShape shape = shape_of(split, Precision::bf16);
  EXPECT_EQ(micro_batch_peaks(shape, split, false), micro_batch_peaks(shape, tiny_llama(), false));
  split.runs[1].block.ffn *= 2;
  EXPECT_GT(tensors(shape, split, false, Phase::forward),
            tensors(shape, tiny_llama(), false, Phase::forward));
}

std::int64_t net(const Script& script) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(script);
  return simulator.live().allocated().value;
}

/// Of each option of a block and of each way to run it, one.
std::vector<ModelSpec> block_kinds() {
  std::vector<ModelSpec> kinds{tiny_llama(), tiny_gpt()};
  for (const Residual residual : {Residual::parallel, Residual::parallel_shared}) {
    for (ModelSpec model : {tiny_llama(), tiny_gpt()}) {
      model.runs[0].block.residual = residual;
      kinds.push_back(model);
    }
  }
  kinds.push_back(tiny_llama());
  kinds.back().runs[0].block.qk_norm = true;
  for (std::size_t i = 0, given = kinds.size(); i < given; ++i) {
    kinds.push_back(kinds[i]);
    kinds.back().lora = {3, all_linear(kinds[i].block(0))};
  }
  return kinds;
}

std::vector<StepShape> ways_to_run(const StepShape& shape) {
  std::vector<StepShape> ways(5, shape);
  ways[1].attention = AttentionKernel::eager;
  ways[2].attention = AttentionKernel::eager;
  ways[2].hidden_dropout = ways[2].attention_dropout = true;
  ways[3].tp = 2;
  ways[3].sp = true;
  ways[4].kernels = KernelSet::composed;
  return ways;
}

TEST(BlockScripts, BackwardReleasesWhatForwardKept) {
  for (const ModelSpec& model : block_kinds()) {
    const BlockSpec& block = model.runs[0].block;
    StepShape of_model = shape_of(model, Precision::bf16, 3);
    for (StepShape shape : ways_to_run(of_model)) {
      const std::int64_t backward = net(block_backward(shape, block));
      EXPECT_EQ(net(block_forward(shape, block, Keep::state)) + backward, 0);
      EXPECT_EQ(net(block_forward(shape, block, Keep::nothing)) +
                    net(block_rebuild(shape, block, false)) + backward,
                0);
      shape.again.core_attn = true;
      EXPECT_EQ(net(block_forward(shape, block, Keep::state)) + net(block_backward(shape, block)),
                0);
    }
  }
}

/// Bytes against the tiny Llama's block of MicroBatchPeaks, whose state and output are 18816 + u.
TEST(BlockScripts, KeepWhatEachTechniqueNeeds) {
  const auto kept = [](const ModelSpec& model, const StepShape& shape) {
    return net(block_forward(shape, model.block(0), Keep::state)) - 18816 - 1536;
  };
  const ModelSpec llama = tiny_llama();
  const StepShape shape = shape_of(llama, Precision::fp32);
  EXPECT_EQ(kept(llama, shape), 0);

  StepShape eager = shape;
  eager.attention = AttentionKernel::eager;
  constexpr std::int64_t kLse = 256, kWeights = 4 * 4 * 16 * 16, kOut = 2048;
  EXPECT_EQ(kept(llama, eager), kWeights - kLse);
  StepShape selective = shape;
  selective.again.core_attn = eager.again.core_attn = true;
  EXPECT_EQ(kept(llama, selective), -kLse - kOut);
  EXPECT_EQ(kept(llama, eager), -kLse - kOut) << "whatever it makes again";

  ModelSpec normed = llama;
  normed.runs[0].block.qk_norm = true;
  EXPECT_EQ(kept(normed, shape), 4 * 16 * (32 + 16) + 4 * 16 * (4 + 2));
  ModelSpec parallel = llama;
  parallel.runs[0].block.residual = Residual::parallel;
  EXPECT_EQ(kept(parallel, shape), -1536);
  parallel.runs[0].block.residual = Residual::parallel_shared;
  EXPECT_EQ(kept(parallel, shape), -2 * 1536 - 64);
  ModelSpec adapted = llama;
  adapted.lora = {3, {LoraTarget::q_proj, LoraTarget::down_proj}};
  EXPECT_EQ(kept(adapted, shape_of(adapted, Precision::fp32)), 2 * 4 * 16 * 3);
}

/// 16 tokens in eight chunks of two: each has an eighth of the logits (3200), and what is alive at
/// the first one is alive at the last.
TEST(MicroBatchPeaks, OfAChunkedLossHoldAChunkOfTheLogits) {
  StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  shape.loss = LossKernel::chunked;
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::loss), 47296 - 3200 + 400);
  StepShape bf16 = shape_of(tiny_llama(), Precision::bf16);
  const std::int64_t plain = tensors(bf16, tiny_llama(), false, Phase::loss);
  bf16.loss = LossKernel::fused;
  EXPECT_EQ(tensors(bf16, tiny_llama(), false, Phase::loss), plain - 4 * 16 * 50);
}

TEST(BlockScripts, NameTheirTensorsInTheOrderOfTheRuntime) {
  const StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  const Script script = block_forward(shape, tiny_llama().runs[0].block, Keep::state);
  std::vector<std::string> made;
  for (const Event& event : script.events()) {
    if (event.kind == Event::Kind::make && event.bytes > 0) made.emplace_back(event.name);
  }
  EXPECT_EQ(made, (std::vector<std::string>{"n1", "stats1", "qkv", "out", "lse", "x1", "n2",
                                            "stats2", "gu", "act", "y"}));
}

/// The composed kernels keep the same states and have more transients: a loss of fp32 rows holds
/// the target's logit, the largest, the sum, its logarithm (16 each) and, on a CPU, doubles of it
/// and their sum: 4·4·16 + 8·16 + 8 = 392.
TEST(MicroBatchPeaks, OfTheComposedKernelsAddTheirTransients) {
  StepShape shape = shape_of(tiny_llama(), Precision::fp32);
  shape.kernels = KernelSet::composed;
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::forward), 47296);
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::loss), 47296 + 392);
  shape.device = DeviceKind::cuda;
  EXPECT_EQ(tensors(shape, tiny_llama(), false, Phase::loss), 47296 + 4 * 64 + 8);
}

TEST(MicroBatchPeaks, OnlyHalfPrecisionProductsTakeScratchOnACpu) {
  const auto product = [](Precision precision) {
    const auto peaks = micro_batch_peaks(shape_of(tiny_gpt(), precision), tiny_gpt(), false);
    return peaks[static_cast<std::size_t>(Phase::forward)].product.has_value();
  };
  EXPECT_TRUE(product(Precision::bf16));
  EXPECT_FALSE(product(Precision::fp32));
  EXPECT_FALSE(product(Precision::fp64));
}

}  // namespace
}  // namespace planwright::estimator
