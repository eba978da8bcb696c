#include "probes/worker/kernels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "model_fixture.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/dropout.h"

namespace planwright::worker::testing {
namespace {

/// Enough rows that the in-place kernels share them out among threads.
constexpr std::int64_t kRows = 3000, kWidth = 64;

/// What each kernel makes of the same inputs, end to end.
std::vector<at::Tensor> results(const Kernels& kernels, int threads, at::ScalarType type) {
  at::set_num_threads(threads);
  at::manual_seed(3);
  const auto random = [&](std::int64_t rows, std::int64_t width) {
    return at::randn({rows, width}, at::kDouble).to(type);
  };
  const auto sums = [&](std::int64_t n) { return at::zeros({n}, at::kFloat); };
  NormWeights norm{.kind = NormKind::layer_norm,
                   .eps = 1e-5,
                   .weight = random(1, kWidth)[0],
                   .weight_gradient = sums(kWidth),
                   .bias = random(1, kWidth)[0],
                   .bias_gradient = sums(kWidth)};
  const at::Tensor x = random(kRows, kWidth), dy = random(kRows, kWidth);
  const at::Tensor y = at::empty_like(x), stats = at::empty({2, kRows}, at::kFloat);
  kernels.norm_forward(x, norm, y, stats);
  const at::Tensor dx = dy.clone();
  kernels.norm_backward(dy, x, stats, norm, dx, true);
  const at::Tensor bias = sums(kWidth);
  kernels.bias_backward(dy, bias);
  const at::Tensor gate_up = random(kRows, 2 * kWidth), act = at::empty_like(x);
  kernels.gated_forward(Activation::silu, gate_up, act);
  const at::Tensor logits = random(kRows, kWidth).to(at::kFloat);
  const at::Tensor targets = at::randint(kWidth, {kRows}, at::kLong);
  const double loss = kernels.cross_entropy(logits, targets, 0.5);
  const at::Tensor tokens_gradient = at::zeros({kWidth, kWidth}, at::kFloat);
  kernels.embed_backward(targets, dy, tokens_gradient, {.first = 0, .valid = kWidth});
  return {y,    stats, dx,     norm.weight_gradient, norm.bias_gradient,
          bias, act,   logits, at::tensor(loss),     tokens_gradient};
}

void expect_close(const std::vector<at::Tensor>& actual, const std::vector<at::Tensor>& expected,
                  double tolerance) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(relative_difference(actual[i].to(at::kDouble), expected[i].to(at::kDouble)),
              tolerance)
        << "result " << i;
  }
}

TEST(Kernels, in_place_do_the_same_on_two_threads_as_on_one) {
  const auto one = results(in_place_kernels(), 1, at::kFloat);
  expect_close(results(in_place_kernels(), 2, at::kFloat), one, 1e-5);
}

TEST(Kernels, of_both_sets_agree) {
  expect_close(results(in_place_kernels(), 2, at::kFloat),
               results(composed_kernels(), 2, at::kFloat), 1e-5);
  constexpr double kBf16Rounding = 1.0 / 128, kHalfRounding = 1.0 / 1024;
  expect_close(results(in_place_kernels(), 2, at::kBFloat16),
               results(composed_kernels(), 2, at::kBFloat16), kBf16Rounding);
  expect_close(results(in_place_kernels(), 2, at::kHalf), results(composed_kernels(), 2, at::kHalf),
               kHalfRounding);
}

TEST(Kernels, in_place_allocate_only_their_threads_partial_sums) {
  at::set_num_threads(2);
  const at::Tensor dy = at::ones({kRows, kWidth}, at::kBFloat16);
  const at::Tensor bias = at::zeros({kWidth}, at::kFloat);
  const Bytes before = live_memory().allocated();
  reset_memory_peaks();
  in_place_kernels().bias_backward(dy, bias);
  EXPECT_EQ(memory_peaks().allocated.allocated(), before + Bytes{4 * 2 * kWidth});
  EXPECT_EQ(bias[5].item<float>(), float{kRows});

  reset_memory_peaks();
  const at::Tensor addend = at::ones({kRows * kWidth}, at::kBFloat16);
  const at::Tensor total = at::zeros({kRows * kWidth}, at::kFloat);
  const Bytes held = live_memory().allocated();
  in_place_kernels().accumulate(total, addend);
  EXPECT_EQ(memory_peaks().allocated.allocated(), held);
  EXPECT_EQ(total.sum().item<float>(), float{kRows * kWidth});
}

// Sums that a narrow gradient could not hold: 3000 ones and more at a time.
TEST(Kernels, in_place_sum_wide_what_a_narrow_gradient_gets) {
  at::set_num_threads(2);
  for (const at::ScalarType type : {at::kBFloat16, at::kHalf}) {
    const at::Tensor dy = at::ones({kRows, kWidth}, type);
    const at::Tensor bias = at::full({kWidth}, 96, type);
    const Bytes before = live_memory().allocated();
    reset_memory_peaks();
    in_place_kernels().bias_backward(dy, bias);
    EXPECT_EQ(memory_peaks().allocated.allocated(), before + Bytes{4 * 2 * kWidth});
    EXPECT_EQ(bias[5].item<float>(), at::full({}, kRows + 96, type).item<float>());
    in_place_kernels().accumulate(bias, bias.clone());
    EXPECT_EQ(bias[5].item<float>(), 2 * at::full({}, kRows + 96, type).item<float>());
  }
}

/// Bytes that a call has live at once beyond what it finds.
template <class Call>
std::int64_t transient_bytes(const Call& call) {
  call();
  reset_memory_peaks();
  const Bytes before = live_memory().allocated();
  call();
  return (memory_peaks().allocated.allocated() - before).value;
}

// docs/runtime.md, "Kernel sets", written out for two storage types.
TEST(Kernels, composed_allocate_what_the_page_says) {
  constexpr std::int64_t n = kRows * kWidth, c = 4;
  constexpr std::int64_t kDivisor = 8 + c;  // a mean's, which only a CPU keeps in tensors
  const Kernels& kernels = composed_kernels();
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const bool narrow = type == at::kBFloat16;
    const at::Tensor x = at::ones({kRows, kWidth}, type), y = at::ones_like(x);
    const at::Tensor sums = at::zeros({kWidth}, at::kFloat),
                     stats = at::ones({2, kRows}, at::kFloat);
    const NormWeights layer{.kind = NormKind::layer_norm,
                            .eps = 1e-5,
                            .weight = at::ones({kWidth}, type),
                            .weight_gradient = sums,
                            .bias = at::ones({kWidth}, type),
                            .bias_gradient = sums};
    EXPECT_EQ(transient_bytes([&] { kernels.norm_forward(x, layer, y, stats); }),
              2 * c * n + kDivisor);
    EXPECT_EQ(transient_bytes([&] { kernels.norm_backward(x, x, stats, layer, y, true); }),
              3 * c * n + c * kRows + kDivisor);
    EXPECT_EQ(transient_bytes([&] { kernels.bias_backward(x, sums); }),
              c * kWidth + (narrow ? c * n : 0));
    const at::Tensor total = at::zeros({kRows, kWidth}, at::kFloat);
    EXPECT_EQ(transient_bytes([&] { kernels.accumulate(total, x); }), narrow ? c * n : 0);
    EXPECT_EQ(transient_bytes([&] { kernels.activation_forward(Activation::gelu_tanh, x, y); }), 0);
    EXPECT_EQ(transient_bytes([&] { kernels.activation_backward(Activation::silu, x, y); }), 0);
    const at::Tensor gate_up = at::ones({kRows, 2 * kWidth}, type);
    EXPECT_EQ(transient_bytes([&] { kernels.gated_forward(Activation::silu, gate_up, y); }), 0);
    EXPECT_EQ(transient_bytes([&] { kernels.gated_backward(Activation::silu, gate_up, y); }),
              x.element_size() * n);
    const RotaryTables tables{at::ones({kRows, 8}, at::kFloat), at::ones({kRows, 8}, at::kFloat)};
    EXPECT_EQ(transient_bytes([&] { kernels.rotate(x, 3, tables, false); }), 3 * c * kRows * 3 * 8);
  }
}

TEST(Kernels, composed_make_attention_weights_with_one_copy_of_the_scores_and_a_mask) {
  constexpr std::int64_t kSeq = 40, kHeads = 3;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const at::Tensor scores = at::rand({kHeads * kSeq, kSeq}, at::kFloat).to(type);
    const at::Tensor gradient = at::rand_like(scores);
    const std::int64_t bytes = scores.element_size() * scores.numel(), mask = kSeq * kSeq;
    const Kernels& kernels = composed_kernels();
    EXPECT_EQ(transient_bytes([&] { kernels.causal_softmax(scores, 0, 0.5); }), bytes + mask);
    EXPECT_EQ(transient_bytes([&] { kernels.causal_softmax(scores, 7, 0.5); }), bytes + 2 * mask);
    EXPECT_EQ(transient_bytes([&] { kernels.softmax_backward(scores, gradient, 0.5); }),
              scores.element_size() * kHeads * kSeq);
  }
}

TEST(Kernels, composed_widen_some_rows_of_narrow_logits_at_a_time) {
  const at::Tensor logits = at::rand({1000, 50}, at::kFloat).to(at::kBFloat16);
  const at::Tensor targets = at::randint(50, {1000}, at::kLong);
  EXPECT_EQ(transient_bytes([&] { composed_kernels().cross_entropy(logits, targets, 0.5); }),
            256 * (4 * 50 + 4 * 4 + 8) + 8);
}

/// Dropped: the share that was asked for, other ones for each stream, and each kept value scaled.
TEST(Dropout, drops_its_share_and_scales_the_rest) {
  constexpr std::int64_t kElements = 200000;
  const at::Tensor ones = at::ones({kElements}, at::kFloat), first = at::empty_like(ones),
                   other = at::empty_like(ones);
  for (const double probability : {0.1, 0.5, 0.9}) {
    drop(ones, {probability, 1, 0}, first);
    drop(ones, {probability, 2, 0}, other);
    const at::Tensor dropped = first.eq(0), both = dropped.logical_and(other.eq(0));
    const auto share = [&](const at::Tensor& of) {
      return of.to(at::kDouble).mean().item<double>();
    };
    EXPECT_NEAR(share(dropped), probability, 0.005);  // 4.5 deviations of the binomial
    EXPECT_NEAR(share(both), probability * probability, 0.005);
    EXPECT_NEAR(first.max().item<float>(), 1 / (1 - probability), 1e-5);
    EXPECT_NEAR(share(first), 1, 0.05);
  }
}

TEST(Dropout, of_a_part_is_the_part_of_the_dropout) {
  const at::Tensor x = at::rand({1000}, at::kDouble), whole = at::empty_like(x);
  drop(x, {0.3, 5, 0}, whole);
  const at::Tensor part = at::empty({400}, at::kDouble);
  drop(x.narrow(0, 600, 400), {0.3, 5, 600}, part);
  EXPECT_TRUE(at::equal(part, whole.narrow(0, 600, 400)));
  const at::Tensor sum = x.clone();
  drop_and_add(sum, {0.3, 5, 0}, x);
  EXPECT_TRUE(at::equal(sum, x + whole));
}

TEST(Kernels, make_the_cross_entropy_of_huge_logits_finite) {
  for (const Kernels* set : {&in_place_kernels(), &composed_kernels()}) {
    const at::Tensor logits = at::tensor({1e4, -1e4, 0.0}, at::kDouble).view({1, 3});
    const double loss = set->cross_entropy(logits, at::tensor({2}, at::kLong), 1.0);
    EXPECT_DOUBLE_EQ(loss, 1e4);
    EXPECT_EQ(logits[0][0].item<double>(), 1.0);
    EXPECT_EQ(logits[0][2].item<double>(), -1.0);
  }
}

}  // namespace
}  // namespace planwright::worker::testing
