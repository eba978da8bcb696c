#include "estimator/fa_program.h"

#include <gtest/gtest.h>

#include "tests/support/net_bytes.h"

namespace planwright::estimator {
namespace {

constexpr std::int64_t kSeq = 64, kBatch = 2, kHidden = 48, kHeads = 4, kFfn = 96, kVocab = 160;
constexpr std::int64_t kRows = kSeq * kBatch;
constexpr std::int64_t kLse = 4 * kRows * kHeads, kNormStats = 2 * 4 * kRows;

BlockSpec llama_block() {
  BlockSpec block;
  block.heads = block.kv_heads = kHeads;
  block.head_dim = kHidden / kHeads;
  block.ffn = kFfn;
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  return block;
}

StepShape shape_of() {
  StepShape shape;
  shape.batch = kBatch;
  shape.seq = kSeq;
  shape.hidden = kHidden;
  shape.vocab = kVocab;
  shape.compute = DType::bf16;
  shape.kernels = KernelSet::flash_attn;
  shape.device = DeviceKind::cuda;
  return shape;
}

using testing::net;

using Turn = StepProgram::Turn;

/// What a block keeps for its backward, its input counted and its output not.
std::int64_t state_of(const StepShape& shape, const BlockSpec& block) {
  return net(FaProgram(shape).block(Turn::forward_kept, true, block));
}

/// Per token: the input 2h, normed 2h, queries, keys and values in order 6h, keys and values once
/// more 4h, attended 2h, the second input 2h, normed 2h; gate and up 4f, silu 2f, their product 2f.
TEST(FaProgram, KeepsTwentyTimesTheWidthAndEightTimesTheMlps) {
  EXPECT_EQ(state_of(shape_of(), llama_block()),
            kRows * (20 * kHidden + 8 * kFfn) + kLse + kNormStats);
}

/// Queries are brought into order alone, and only those.
TEST(FaProgram, KeepsKeysAndValuesOnceWithFewerOfThem) {
  BlockSpec block = llama_block();
  block.kv_heads = 2;
  EXPECT_EQ(state_of(shape_of(), block),
            kRows * (12 * kHidden + 4 * (kHidden / 2) + 8 * kFfn) + kLse + kNormStats);
}

TEST(FaProgram, DividesAllWithSequenceParallelism) {
  StepShape shape = shape_of();
  const std::int64_t whole = state_of(shape, llama_block());
  shape.tp = 2;
  shape.sp = true;
  EXPECT_EQ(state_of(shape, llama_block()), whole / 2);
}

/// The two normed inputs, whole in the place of the rank's rows.
TEST(FaProgram, KeepsWhatItGatheredIfAsked) {
  StepShape shape = shape_of();
  shape.tp = 2;
  shape.sp = true;
  const std::int64_t again = state_of(shape, llama_block());
  shape.keeps_gathered = true;
  EXPECT_EQ(state_of(shape, llama_block()) - again, kRows * (4 * kHidden - 4 * kHidden / 2));
}

TEST(FaProgram, HasABufferForEachKindOfGathering) {
  StepShape shape = shape_of();
  ModelPart part;
  part.layers = 1;
  EXPECT_EQ(net(FaProgram(shape).resident(part)), 0);
  shape.tp = 2;
  shape.sp = true;
  EXPECT_EQ(net(FaProgram(shape).resident(part)), 2 * 2 * kRows * kHidden);
  part.layers = 0;
  EXPECT_EQ(net(FaProgram(shape).resident(part)), 2 * kRows * kHidden);
  shape.keeps_gathered = true;
  EXPECT_EQ(net(FaProgram(shape).resident(part)), 0);
}

TEST(FaProgram, DropsAllThatItMakes) {
  for (const bool sp : {false, true}) {
    for (const bool keeps : {false, true}) {
      StepShape shape = shape_of();
      shape.tp = 2;
      shape.sp = sp;
      shape.keeps_gathered = keeps;
      const FaProgram program(shape);
      const BlockSpec block = llama_block();
      const std::int64_t kept = net(program.block(Turn::forward_kept, true, block));
      const std::int64_t unit = program.boundary().bytes;
      EXPECT_EQ(kept + net(program.block(Turn::backward, true, block)), 0);
      EXPECT_EQ(net(program.block(Turn::forward_dropped, true, block)), unit);
      EXPECT_EQ(net(program.block(Turn::forward_dropped, false, block)), 0);
      EXPECT_EQ(net(program.block(Turn::rebuild_and_backward, true, block)), -unit);
      EXPECT_EQ(net(program.embedding()) + net(program.embedding_backward()), 0);
      const StepProgram::Head head = program.head(block);
      const StepProgram::Chunk& chunk = head.chunks.front();
      EXPECT_EQ(net(head.before) + net(chunk.forward) + net(chunk.loss) + net(chunk.backward), 0);
    }
  }
}

std::int64_t largest(const Script& script, std::int64_t& live, Account account) {
  std::int64_t most = live;
  for (const Event& event : script.events()) {
    if (event.account != account) continue;
    if (event.kind == Event::Kind::make) live += event.bytes;
    if (event.kind == Event::Kind::drop) live -= event.bytes;
    most = std::max(most, live);
  }
  return most;
}

/// bf16 beside fp32 at first, then fp32 beside the softmax of it.
TEST(FaProgram, HasLogitsInFp32BesideTheirSoftmax) {
  const StepProgram::Head head = FaProgram(shape_of()).head(llama_block());
  const StepProgram::Chunk& chunk = head.chunks.front();
  std::int64_t live = 0;
  EXPECT_EQ(largest(chunk.forward, live, Account::logits), (2 + 4) * kRows * kVocab);
  EXPECT_EQ(live, 4 * kRows * kVocab);
  EXPECT_EQ(largest(chunk.loss, live, Account::logits) / (kRows * kVocab), 4 + 4);
  EXPECT_EQ(live / (kRows * kVocab), 4);
}

}  // namespace
}  // namespace planwright::estimator
