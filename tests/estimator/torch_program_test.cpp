#include "estimator/torch_program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>

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

/// The last product's result, and what is scattered of it, are what no backward asks for: the
/// compiler's operators save neither, and of SwiGLU not its activation. With torch 2.11.0 on a CPU
/// saved_tensors_hooks tell as many of a compiled block.
TEST(TorchProgram, LeavesToTheCompilerWhatNoBackwardAsksFor) {
  const auto kept = [](const Case& is, bool compiled, Turn turn) {
    StepShape s = shape_of(is);
    s.modules.compiled_blocks = compiled;
    return net(TorchProgram(s).block(turn, true, block_of(is)));
  };
  for (const Case& is : cases(true)) {
    const std::int64_t scattered = is.sp ? 2 * kHidden / is.tp : 0;
    EXPECT_EQ(kept(is, false, Turn::forward_dropped) - kept(is, true, Turn::forward_dropped),
              kTokens * (2 * kHidden + scattered))
        << is.tp << is.sp << is.kv_heads;
  }
  for (const Case& is : cases(false)) {
    EXPECT_EQ(kept(is, false, Turn::forward_kept) - kept(is, true, Turn::forward_kept),
              kTokens * 2 * is.ffn());
  }
}

/// What goes in, in 4 bytes, which the square and the product share, with the root, and what has
/// been narrowed; the input itself is nobody's any more.
TEST(TorchProgram, ComposesNorms) {
  StepShape s = shape_of({});
  s.modules.composed_norms = true;
  const TorchProgram composed(s);
  const auto kept = [&](const TorchProgram& program) {
    return net(program.block(Turn::forward_kept, true, block_of({})));
  };
  EXPECT_EQ(kept(composed) - kept(TorchProgram(shape_of({}))),
            kTokens * 2 * (4 * kHidden + 2 * kHidden - 2 * kHidden));
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

/// Compiled, the loss reads narrow logits twice, and its gradient is as wide. Held, wide ones of an
/// earlier step are there until the new ones are, which stay.
TEST(TorchProgram, LogitsOfOtherLosses) {
  constexpr std::int64_t kLogits = kTokens * kVocab;
  const auto peak = [](const StepShape& s, const char* until) {
    const TorchProgram program(s);
    ModelPart part;
    part.last = true;
    const StepProgram::Head head = program.head(block_of({}));
    Script all = program.resident(part);
    all.append(head.chunks.front().forward).append(head.chunks.front().loss);
    if (std::string_view(until) == "backward") all.append(head.chunks.front().backward);
    return most(all, Account::logits) / kLogits;
  };
  StepShape s = shape_of({});
  s.modules.compiled_loss = true;
  EXPECT_EQ(peak(s, "loss"), 2);
  EXPECT_EQ(peak(s, "backward"), 2 + 2);
  s = shape_of({});
  s.modules.held_logits = true;
  EXPECT_EQ(peak(s, "loss"), 4 + 2 + 4);
  EXPECT_EQ(peak(s, "backward"), 4 + 4 + 4 + 4);
  EXPECT_EQ(left(s, block_of({}), false), 0);
}

/// Two bytes each: what three products, attention's output, the two norms and the two products that
/// lead up gave has a gradient that is kept; so has the input, and the output's is not let go.
TEST(TorchProgram, KeepsGradientsForABackwardInTwo) {
  for (const std::int64_t kv_heads : {kHeads, kHeads / 2}) {
    const Case is{.kv_heads = kv_heads};
    const TorchProgram program(shape_of(is));
    const auto bytes = [&](Turn turn) { return net(program.block(turn, true, block_of(is))); };
    const std::int64_t widths = is.queries() + 2 * is.keys() + 3 * kHidden + 2 * is.ffn();
    EXPECT_EQ(bytes(Turn::backward_of_input), 2 * kTokens * (widths + kHidden)) << kv_heads;
    EXPECT_EQ(bytes(Turn::forward_kept) + bytes(Turn::backward_of_input) +
                  bytes(Turn::backward_of_weights) + bytes(Turn::rest_of_backward),
              0)
        << kv_heads;
  }
}

/// Of the head: the logits' gradient and that of the norm's output, beside its input and the two
/// rows' statistics; the loss has let go of what it kept.
TEST(TorchProgram, KeepsGradientsOfTheHead) {
  StepShape s = shape_of({});
  s.torch_stages = true;
  const TorchProgram program(s);
  const StepProgram::Head head = program.head_in_two(block_of({}));
  const StepProgram::Chunk& chunk = head.chunks.front();
  std::int64_t bytes = 0;
  for (const Script* part : {&head.before, &chunk.forward, &chunk.loss, &chunk.backward}) {
    bytes += net(*part);
  }
  const std::int64_t logits = 2 * kTokens * kVocab, rows = 2 * kTokens * kHidden;
  EXPECT_EQ(bytes + net(head.after), logits + 3 * rows + 4 * kTokens);
  EXPECT_EQ(net(head.after), -logits - 2 * logits)
      << "the output goes when its backward has ended, and what the loss saved in four bytes";
  EXPECT_EQ(bytes + net(head.after) + net(head.weights), 0);
}

/// What a rank of a ring keeps is what it keeps of as many tokens by itself, and its positions'
/// cosines and sines in fp32.
TEST(TorchProgram, KeepsItsPartOfASequence) {
  constexpr std::int64_t kRanks = 2;
  StepShape ring = shape_of({}), alone = shape_of({});
  ring.cp = kRanks;
  ring.seq = kRanks * alone.seq;
  const auto kept = [](const StepShape& s) {
    return net(TorchProgram(s).block(Turn::forward_kept, true, block_of({})));
  };
  EXPECT_EQ(kept(ring), kept(alone) + 4 * kTokens * kHidden / kHeads);
}

/// All ranks' keys and values of 2 bytes; in a backward with them the sums that go round, of 4
/// bytes, twice: those that came and those that are sent.
TEST(TorchProgram, GathersKeysAndValues) {
  StepShape s = shape_of({});
  s.cp = 2;
  const std::int64_t keys = 2 * kTokens / 2 * kHidden;  // and values of this rank
  const TorchProgram program(s);
  const auto told = [&](Turn turn) {
    return most(program.block(turn, true, block_of({})), Account::communication);
  };
  EXPECT_EQ(told(Turn::forward_kept), 2 * 2 * keys);
  EXPECT_EQ(told(Turn::backward), 2 * 2 * keys + 2 * 4 * keys);
}

constexpr std::int64_t kExperts = 4, kTopK = 2, kExpertFfn = 48;

BlockSpec experts_of(std::int64_t shared_ffn) {
  BlockSpec block = block_of({});
  block.ffn = 0;
  block.moe =
      MoeSpec{.experts = kExperts, .top_k = kTopK, .ffn = kExpertFfn, .shared_ffn = shared_ffn};
  return block;
}

/// Beside attention: scores of 4 bytes, places of 8 bytes (of the choice; twice of what is sorted;
/// of what is padded), chosen scores of 4 bytes before and after they are scaled; of each expert's
/// rows, padded, the input, three of its width and their product; and the results in 4 bytes.
TEST(TorchProgram, KeepsRowsOfExperts) {
  const auto kept = [](const StepShape& s, const BlockSpec& block) {
    return net(TorchProgram(s).block(Turn::forward_kept, true, block));
  };
  const std::int64_t attention = kept(shape_of({}), block_of({})) - kTokens * 2 * 4 * kFfn;
  for (const std::int64_t ep : {1, 2}) {
    StepShape s = shape_of({});
    s.ep = ep;
    const std::int64_t sent = kTokens * kTopK, padded = sent + kExperts / ep * 8;
    const std::int64_t routing = kTokens * kExperts * 4 + 8 * (sent + 2 * sent + padded) + 4 * sent;
    const std::int64_t rows = padded * 2 * (kHidden + 4 * kExpertFfn) + 4 * sent * kHidden;
    EXPECT_EQ(kept(s, experts_of(0)), attention + routing + rows) << ep;
  }
  const StepShape s = shape_of({});
  EXPECT_EQ(kept(s, experts_of(32)), kept(s, experts_of(0)) + 2 * kTokens * 4 * 32);
}

/// Results that are weighed are kept in 4 bytes as they are, by scores that are sorted and chosen.
TEST(TorchProgram, KeepsWeighedRowsOfExperts) {
  const auto kept = [](bool weighed) {
    StepShape s = shape_of({});
    s.modules.weighed_rows = weighed;
    return net(TorchProgram(s).block(Turn::forward_kept, true, experts_of(32)));
  };
  EXPECT_EQ(kept(true), kept(false));
}

/// Of eight products wq, wkv_b, the router's and the shared experts' third are saved, of 2 bytes;
/// of what is exchanged all or nothing, of rows that are a token's as often as it has experts.
TEST(TorchProgram, SavesProductsBesideExperts) {
  BlockSpec block = experts_of(32);
  block.latent =
      LatentSpec{.kv_rank = 24, .q_rank = 0, .nope_dim = 8, .rope_dim = 8, .value_dim = 12};
  StepShape s = shape_of({.saves_ops = true});
  s.ep = 2;
  const auto kept = [&] { return net(TorchProgram(s).block(Turn::forward_dropped, true, block)); };
  const std::int64_t products = kHeads * 16 + kHeads * 20 + kExperts + 32;
  const std::int64_t attention = 2 * kHeads * 12 + 4 * kHeads;
  EXPECT_EQ(kept(), kTokens * (2 * products + attention + 2 * kHidden));
  s.modules.keeps_exchanged = true;
  EXPECT_EQ(kept(), kTokens * (2 * products + attention + 2 * kHidden + 2 * 2 * kTopK * kHidden));
}

/// Without a kernel for all experts every other product of each is saved: of two experts, of which
/// the first begins behind an odd number of products.
TEST(TorchProgram, MultipliesExpertsOneByOne) {
  StepShape s = shape_of({.saves_ops = true});
  s.ep = 2;
  const auto kept = [&](double capability) {
    s.capability = capability;
    return net(TorchProgram(s).block(Turn::forward_dropped, true, experts_of(0)));
  };
  const std::int64_t rows = kTokens * kTopK / 2 + 8;  // of each expert, padded
  EXPECT_EQ(kept(8) - kept(9), 2 * rows * (kExpertFfn + (kExpertFfn + kHidden)));
  EXPECT_EQ(left(s, experts_of(32), true), 0);
}

TEST(TorchProgram, LeavesNothingOfRingsAndExperts) {
  BlockSpec latent = experts_of(32);
  latent.latent =
      LatentSpec{.kv_rank = 24, .q_rank = 0, .nope_dim = 8, .rope_dim = 8, .value_dim = 12};
  BlockSpec ranked = latent;
  ranked.latent->q_rank = 40;
  for (const BlockSpec& block : {block_of({}), experts_of(0), latent, ranked}) {
    for (const std::int64_t cp : {1, 4}) {
      StepShape s = shape_of({});
      s.cp = cp;
      EXPECT_EQ(left(s, block, false), 0) << cp;
      EXPECT_EQ(left(s, block, true), 0) << cp;
      const TorchProgram program(s);
      std::int64_t bytes = 0;
      for (const Turn turn : {Turn::forward_kept, Turn::backward_of_input,
                              Turn::backward_of_weights, Turn::rest_of_backward}) {
        bytes += net(program.block(turn, true, block));
      }
      EXPECT_EQ(bytes, 0) << cp;
    }
  }
}

}  // namespace
}  // namespace planwright::estimator
