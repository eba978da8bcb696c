#include "estimator/apex_program.h"

#include <gtest/gtest.h>

#include "tests/support/net_bytes.h"

namespace planwright::estimator {
namespace {

using Turn = StepProgram::Turn;

constexpr std::int64_t kSeq = 64, kBatch = 2, kHidden = 48, kHeads = 4, kVocab = 96;
constexpr std::int64_t kRows = kSeq * kBatch;

BlockSpec gpt_block() {
  return {.heads = kHeads,
          .kv_heads = kHeads,
          .head_dim = kHidden / kHeads,
          .ffn = 4 * kHidden,
          .qkv_bias = true,
          .out_bias = true,
          .mlp_bias = true};
}

StepShape shape_of(std::int64_t tp = 1) {
  StepShape shape;
  shape.batch = kBatch;
  shape.seq = kSeq;
  shape.hidden = kHidden;
  shape.vocab = kVocab;
  shape.tp = tp;
  shape.compute = DType::fp16;
  shape.kernels = KernelSet::apex;
  shape.device = DeviceKind::cuda;
  shape.rotary = false;
  shape.attention = AttentionKernel::eager;
  shape.hidden_dropout = shape.attention_dropout = true;
  return shape;
}

using testing::net;

std::int64_t state_of(const StepShape& shape) {
  return net(ApexProgram(shape).block(Turn::forward_kept, true, gpt_block()));
}

/// Korthikanti et al., arXiv:2205.05198, equation 1, and of two norms the mean and the deviation of
/// each row.
TEST(ApexProgram, KeepsWhatThePaperCounts) {
  const std::int64_t scores = kBatch * kHeads * kSeq * kSeq, stats = 2 * 8 * kRows;
  EXPECT_EQ(state_of(shape_of()), 34 * kRows * kHidden + 5 * scores + stats);
}

/// Equation 2: without sequence parallelism what is between the products is whole on every rank.
TEST(ApexProgram, DividesProductsAndScoresAmongTensorRanks) {
  const std::int64_t scores = kBatch * kHeads * kSeq * kSeq, stats = 2 * 8 * kRows;
  EXPECT_EQ(state_of(shape_of(2)), (10 + 24 / 2) * kRows * kHidden + 5 * scores / 2 + stats);
}

TEST(ApexProgram, KeepsTwoBytesOfAScoreWithoutDropout) {
  StepShape shape = shape_of();
  shape.hidden_dropout = shape.attention_dropout = false;
  const std::int64_t scores = kBatch * kHeads * kSeq * kSeq, stats = 2 * 8 * kRows;
  EXPECT_EQ(state_of(shape), 32 * kRows * kHidden + 2 * scores + stats);
}

TEST(ApexProgram, LeavesNothingOfAMicroBatch) {
  for (const bool recompute : {true, false}) {
    for (const AttentionKernel kernel : {AttentionKernel::eager, AttentionKernel::flash}) {
      for (const std::int64_t tp : {1, 2}) {
        StepShape shape = shape_of(tp);
        shape.attention = kernel;
        const ApexProgram program(shape);
        const Turn forward = recompute ? Turn::forward_dropped : Turn::forward_kept;
        const Turn backward = recompute ? Turn::rebuild_and_backward : Turn::backward;
        const StepProgram::Head head = program.head(gpt_block());
        std::int64_t bytes = net(program.embedding()) + net(program.embedding_backward());
        for (const Turn turn : {forward, backward}) {
          bytes += net(program.block(turn, true, gpt_block()));
        }
        for (const Script* part : {&head.before, &head.chunks[0].forward, &head.chunks[0].loss,
                                   &head.chunks[0].backward, &head.after}) {
          bytes += net(*part);
        }
        EXPECT_EQ(bytes, 0) << recompute << word(kernel) << tp;
      }
    }
  }
}

/// What was received and what was sent on, of which tensor ranks have a part each; a buffer for
/// either; and of the last stage the fp32 logits of two micro-batches.
TEST(ApexProgram, KeepsSlotsOfAPipeline) {
  const ApexProgram program(shape_of(2));
  const std::int64_t boundary = 2 * kRows * kHidden;
  EXPECT_EQ(program.kept({.first = true, .last = true}).bytes, 0);
  EXPECT_EQ(program.kept({.first = true, .last = false}).bytes, boundary / 2);
  EXPECT_EQ(program.kept({.first = false, .last = false}).bytes, boundary);
  EXPECT_EQ(net(program.resident({.first = false, .last = false})), boundary);
  EXPECT_EQ(net(program.resident({.first = true, .last = true})), 2 * 4 * kRows * kVocab);
}

}  // namespace
}  // namespace planwright::estimator
