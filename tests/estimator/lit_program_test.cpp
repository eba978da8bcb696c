#include "estimator/lit_program.h"

#include <gtest/gtest.h>

#include "tests/support/net_bytes.h"

namespace planwright::estimator {
namespace {

using Turn = StepProgram::Turn;

constexpr std::int64_t kSeq = 320, kBatch = 2, kHidden = 64, kFfn = 96, kVocab = 500;
constexpr std::int64_t kRows = kSeq * kBatch;

using testing::net;

BlockSpec llama_block(std::int64_t kv_heads) {
  return {.heads = 4,
          .kv_heads = kv_heads,
          .head_dim = 16,
          .ffn = kFfn,
          .mlp = MlpKind::gated,
          .activation = Activation::silu,
          .norm = NormKind::rms_norm};
}

BlockSpec neox_block() {
  BlockSpec block{.heads = 4, .kv_heads = 4, .head_dim = 16, .ffn = 4 * kHidden};
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  block.residual = Residual::parallel;
  block.rotary_dim = 4;
  return block;
}

BlockSpec gemma_block() {
  BlockSpec block = llama_block(2);
  block.norm_place = NormPlace::both;
  block.logit_cap = true;
  return block;
}

/// bf16-true, with adapters of queries and values.
StepShape lora_shape() {
  StepShape shape{.batch = kBatch, .seq = kSeq, .hidden = kHidden, .vocab = kVocab};
  shape.compute = DType::bf16;
  HfModules& m = shape.modules;
  m.stream = m.weights = m.norms = m.adapters = DType::bf16;
  m.adapter_dropout = true;
  m.logit_rows = 128;
  shape.lora = {4, {LoraTarget::q_proj, LoraTarget::v_proj}};
  return shape;
}

StepShape full_shape() {
  StepShape shape = lora_shape();
  shape.lora = {};
  shape.modules.logit_rows = 0;
  return shape;
}

std::int64_t left(const StepShape& shape, const BlockSpec& block, bool recompute) {
  const LitProgram program(shape);
  const Turn forward = recompute ? Turn::forward_dropped : Turn::forward_kept;
  const Turn backward = recompute ? Turn::rebuild_and_backward : Turn::backward;
  const StepProgram::Head head = program.head(block);
  const StepProgram::Chunk& chunk = head.chunks.front();
  std::int64_t bytes = net(program.embedding()) + net(program.embedding_backward());
  for (const Turn turn : {forward, backward}) bytes += net(program.block(turn, true, block));
  for (const Script* part : {&head.before, &chunk.forward, &chunk.loss, &chunk.loss_backward,
                             &chunk.product_backward, &chunk.backward, &head.after})
    bytes += net(*part);
  return bytes;
}

std::vector<StepShape> shapes() {
  std::vector<StepShape> all{lora_shape(), full_shape()};
  StepShape old = lora_shape();
  old.modules.interleaved_qkv = old.modules.keeps_quantised_inputs = true;
  all.push_back(old);
  old.modules.quantised = old.modules.quantised_head = old.modules.unpacks_through_half = true;
  all.push_back(old);
  StepShape mixed = full_shape();
  mixed.modules.stream = mixed.modules.weights = mixed.modules.norms = DType::fp32;
  mixed.modules.autocast = true;
  mixed.modules.logit_rows = 128;
  mixed.modules.capped_logits = true;
  all.push_back(mixed);
  return all;
}

TEST(LitProgram, LeavesNothingOfAMicroBatch) {
  int number = 0;
  for (const StepShape& shape : shapes()) {
    for (const BlockSpec& block : {llama_block(4), llama_block(2), neox_block(), gemma_block()}) {
      for (const bool recompute : {true, false}) {
        EXPECT_EQ(left(shape, block, recompute), 0) << number << recompute << block.kv_heads;
      }
    }
    ++number;
  }
}

/// What the modules of litgpt @ 8641822 keep on the meta device, of a block with adapters of
/// queries and values: the fused product whole, turned queries and keys, attention's output and
/// log-sums, gate, its activation and up, of both norms the fp32 input, of the adapters a dropped
/// copy and its mask, what they lower it to (twice four elements), and what they add before it is
/// put in its place; besides the roots of the norms. The input is gone, and the output there.
TEST(LitProgram, KeepsWhatItsModulesKeep) {
  StepShape shape = lora_shape();
  shape.modules.interleaved_qkv = true;
  const std::int64_t h = kHidden, of_norms = 2 * (4 * h + 4), lowered = 2 * 8;
  const std::int64_t each =
      6 * h + 2 * 2 * h + 2 * h + 4 * 4 + 6 * kFfn + of_norms + 3 * h + lowered + 2 * 2 * h;
  EXPECT_EQ(net(LitProgram(shape).block(Turn::forward_kept, true, llama_block(4))), kRows * each);
}

/// Norms multiply in fp32, and 4-bit products of bitsandbytes before 0.43.2 keep their inputs.
TEST(LitProgram, OldQuantisedProductsKeepTheirInputs) {
  StepShape shape = lora_shape();
  shape.modules.quantised = true;
  const auto kept = [&] {
    return net(LitProgram(shape).block(Turn::forward_kept, true, llama_block(4)));
  };
  const std::int64_t plain = kept();
  shape.modules.keeps_quantised_inputs = true;
  EXPECT_EQ(kept() - plain, kRows * (2 * 2 * kHidden + 2 * kFfn));
}

/// All chunks' fp32 logits, which the loop has, and as much of their log-softmax, but for the last
/// row of each sequence.
TEST(LitProgram, KeepsTheLogitsOfAllChunksTwice) {
  const LitProgram program(lora_shape());
  const StepProgram::Head head = program.head(llama_block(4));
  const StepProgram::Chunk& chunk = head.chunks.front();
  const std::int64_t all = 4 * kRows * kVocab, last = 4 * kBatch * kVocab;
  std::int64_t kept = 0;
  for (const Script* part : {&chunk.forward, &chunk.loss}) {
    for (const Event& event : part->events()) {
      if (event.account != Account::logits) continue;
      kept += event.kind == Event::Kind::make ? event.bytes : -event.bytes;
    }
  }
  EXPECT_EQ(chunk.count, 1);
  EXPECT_NEAR(static_cast<double>(kept), static_cast<double>(2 * all - last), 1e3);
}

/// The gradients of a trained head are added up over the chunks: two at most are there at once.
TEST(LitProgram, AddsUpTheGradientsOfAHead) {
  StepShape shape = full_shape();
  shape.modules.logit_rows = 128;
  const LitProgram program(shape);
  const StepProgram::Head head = program.head(llama_block(4));
  std::int64_t live = 0, most = 0;
  for (const Event& event : head.chunks.front().backward.events()) {
    if (event.account != Account::gradients) continue;
    live += event.kind == Event::Kind::make ? event.bytes : -event.bytes;
    most = std::max(most, live);
  }
  EXPECT_EQ(most, 2 * 2 * kVocab * kHidden);
}

}  // namespace
}  // namespace planwright::estimator
