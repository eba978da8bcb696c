#include "estimator/torch_program.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/net_bytes.h"

namespace planwright::estimator {
namespace {

using Turn = StepProgram::Turn;

constexpr std::int64_t kBatch = 2, kSeq = 32, kTokens = kBatch * kSeq;
constexpr std::int64_t kHidden = 64, kHeads = 4, kFfn = 96, kVocab = 512;

struct Case {
  std::int64_t kv_heads = kHeads, tp = 1;
  bool sp = false, saves_ops = false;

  std::int64_t queries() const { return kHidden / tp; }
  std::int64_t keys() const { return kHidden * kv_heads / kHeads / tp; }
  std::int64_t ffn() const { return kFfn / tp; }
  std::int64_t heads() const { return kHeads / tp; }
};

BlockSpec block_of(const Case& is) {
  return {.heads = kHeads,
          .kv_heads = is.kv_heads,
          .head_dim = kHidden / kHeads,
          .ffn = kFfn,
          .mlp = MlpKind::gated,
          .activation = Activation::silu,
          .norm = NormKind::rms_norm};
}

StepShape shape_of(const Case& is) {
  StepShape s{.batch = kBatch, .seq = kSeq, .hidden = kHidden, .vocab = kVocab / is.tp};
  s.tp = is.tp;
  s.sp = is.sp;
  s.saves_ops = is.saves_ops;
  s.compute = DType::bf16;
  s.kernels = KernelSet::torch_modules;
  s.modules.stream = s.modules.weights = s.modules.norms = DType::bf16;
  s.modules.complex_rotary = true;
  return s;
}

std::vector<Case> cases(bool saves_ops) {
  std::vector<Case> all;
  for (const std::int64_t kv_heads : {kHeads, kHeads / 2}) {
    all.push_back({kv_heads, 1, false, saves_ops});
    all.push_back({kv_heads, 2, true, saves_ops});
    all.push_back({kv_heads, 2, false, saves_ops});
  }
  return all;
}

using testing::net;

std::int64_t most(const Script& script, Account account) {
  std::int64_t live = 0, most = 0;
  for (const Event& event : script.events()) {
    if (event.account != account) continue;
    live += event.kind == Event::Kind::make ? event.bytes : -event.bytes;
    most = std::max(most, live);
  }
  return most;
}

/// What a block has in place of its output, its input counted.
std::int64_t state_of(const Case& is, Turn forward) {
  return net(TorchProgram(shape_of(is)).block(forward, true, block_of(is)));
}

/// Two bytes each: the inputs of two norms; what three and two products take, of all ranks' rows;
/// queries, keys, values and what becomes of them; gate, its activation, up and their product. Four
/// bytes each: of each row and norm its deviation, of each head the logarithm of its sum.
TEST(TorchProgram, KeepsWhatOperatorsSave) {
  for (const Case& is : cases(false)) {
    const std::int64_t local = is.sp ? kTokens / is.tp : kTokens;
    const std::int64_t between = 2 * (2 * kHidden) + 2 * 4;
    const std::int64_t whole =
        2 * (2 * kHidden + 2 * is.queries() + 2 * is.keys() + 4 * is.ffn()) + 4 * is.heads();
    EXPECT_EQ(state_of(is, Turn::forward_kept), local * between + kTokens * whole)
        << is.tp << is.sp << is.kv_heads;
  }
}

TEST(TorchProgram, KeepsTheInputAloneToBeMadeAgain) {
  for (const Case& is : cases(false)) {
    const std::int64_t local = is.sp ? kTokens / is.tp : kTokens;
    EXPECT_EQ(state_of(is, Turn::forward_dropped), 2 * local * kHidden);
  }
}

/// wq, wv, w1 and w2 of wq, wk, wv, wo, w1, w3, w2, attention's result with the logarithms, and
/// what is scattered of wo and w2; and the input.
TEST(TorchProgram, KeepsEveryOtherProductAndAttention) {
  for (const Case& is : cases(true)) {
    const std::int64_t products = is.queries() + is.keys() + is.ffn() + kHidden;
    const std::int64_t attention = 2 * is.queries() + 4 * is.heads();
    const std::int64_t scattered = is.sp ? 2 * 2 * kHidden / is.tp : 0;
    const std::int64_t input = 2 * kHidden / (is.sp ? is.tp : 1);
    EXPECT_EQ(state_of(is, Turn::forward_dropped),
              kTokens * (2 * products + attention + scattered + input))
        << is.tp << is.sp << is.kv_heads;
  }
}

/// What is left of a micro-batch of two blocks.
std::int64_t left(const StepShape& shape, const BlockSpec& block, bool recompute) {
  const TorchProgram program(shape);
  const Turn forward = recompute ? Turn::forward_dropped : Turn::forward_kept;
  const Turn backward = recompute ? Turn::rebuild_and_backward : Turn::backward;
  const StepProgram::Head head = program.head(block);
  const StepProgram::Chunk& chunk = head.chunks.front();
  std::int64_t bytes = net(program.embedding()) + net(program.embedding_backward());
  for (const Turn turn : {forward, backward}) bytes += 2 * net(program.block(turn, true, block));
  for (const Script* part : {&head.before, &chunk.forward, &chunk.loss, &chunk.loss_backward,
                             &chunk.product_backward, &chunk.backward, &head.after})
    bytes += net(*part);
  return bytes;
}

TEST(TorchProgram, LeavesNothingOfAMicroBatch) {
  for (const bool saves_ops : {false, true}) {
    for (const Case& is : cases(saves_ops)) {
      for (const bool autocast : {false, true}) {
        StepShape s = shape_of(is);
        s.modules.autocast = autocast;
        if (autocast) s.modules.stream = s.modules.weights = s.modules.norms = DType::fp32;
        BlockSpec block = block_of(is);
        EXPECT_EQ(left(s, block, true), 0) << is.tp << is.sp << saves_ops << autocast;
        block.qk_norm = true;
        s.modules.complex_rotary = false;
        EXPECT_EQ(left(s, block, true), 0) << is.tp << is.sp << saves_ops << autocast;
        if (saves_ops) continue;
        EXPECT_EQ(left(s, block, false), 0) << is.tp << is.sp << autocast;
      }
    }
  }
}

/// In backward a saved product is not made again: none of it is there twice.
TEST(TorchProgram, MakesSavedResultsOnce) {
  const auto made = [](bool saves_ops) {
    const Case is{.saves_ops = saves_ops};
    std::int64_t bytes = 0;
    const Script script =
        TorchProgram(shape_of(is)).block(Turn::rebuild_and_backward, true, block_of(is));
    for (const Event& event : script.events()) {
      if (event.kind == Event::Kind::make) bytes += event.bytes;
    }
    return bytes;
  };
  const Case is{.saves_ops = true};
  EXPECT_EQ(made(false) - made(true),
            state_of(is, Turn::forward_dropped) - state_of({}, Turn::forward_dropped));
}

/// Narrow logits, their copy in fp32 and its logarithms; in backward the caller has let go of the
/// narrow ones: logarithms and two gradients. Spread over ranks, the loss is made of operators.
/// Copies in 8 bits come and go with each product.
TEST(TorchProgram, KeepsTheSameOfProductsIn8Bits) {
  for (const bool saves_ops : {false, true}) {
    for (const Case& is : cases(saves_ops)) {
      StepShape shape = shape_of(is);
      const TorchProgram wide(shape);
      shape.product = DType::fp8;
      const TorchProgram narrow(shape);
      for (const Turn turn : {Turn::forward_kept, Turn::forward_dropped, Turn::backward,
                              Turn::rebuild_and_backward}) {
        EXPECT_EQ(net(narrow.block(turn, true, block_of(is))),
                  net(wide.block(turn, true, block_of(is))));
      }
    }
  }
}

TEST(TorchProgram, LogitsOfEachStepOfTheLoss) {
  const auto peaks = [](const Case& is) {
    const StepProgram::Head head = TorchProgram(shape_of(is)).head(block_of(is));
    Script all;
    all.append(head.chunks.front().forward).append(head.chunks.front().loss);
    const std::int64_t forward = most(all, Account::logits);
    all.append(head.chunks.front().backward);
    return std::pair{forward / (kTokens * kVocab / is.tp),
                     most(all, Account::logits) / (kTokens * kVocab / is.tp)};
  };
  EXPECT_EQ(peaks({}), (std::pair<std::int64_t, std::int64_t>{2 + 4 + 4, 4 + 4 + 4}));
  EXPECT_EQ(peaks({kHeads, 2, true}),
            (std::pair<std::int64_t, std::int64_t>{2 + 4 + 4 + 4, 4 + 4 + 4 + 4}));
}

}  // namespace
}  // namespace planwright::estimator
