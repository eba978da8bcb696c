#include "probes/worker/tokens.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <set>

#include "model_fixture.h"

namespace planwright::worker::testing {
namespace {

constexpr std::uint64_t kSeed = 3;
constexpr std::int64_t kSeq = 9, kVocab = 40;

TEST(Tokens, are_followed_by_their_targets) {
  const MicroBatch batch = micro_batch(kSeed, 5, 2, kSeq, kVocab, at::kCPU);
  for (std::int64_t row = 0; row < 2; ++row) {
    for (std::int64_t i = 0; i < kSeq; ++i) {
      const std::int64_t at = row * kSeq + i;
      EXPECT_EQ(batch.ids[at].item<std::int64_t>(), token(kSeed, 5 + row, i, kVocab));
      EXPECT_EQ(batch.targets[at].item<std::int64_t>(), token(kSeed, 5 + row, i + 1, kVocab));
    }
  }
}

TEST(Tokens, of_a_sample_do_not_depend_on_the_batch_it_is_in) {
  const MicroBatch whole = micro_batch(kSeed, 0, 4, kSeq, kVocab, at::kCPU);
  const MicroBatch part = micro_batch(kSeed, 2, 2, kSeq, kVocab, at::kCPU);
  EXPECT_TRUE(at::equal(whole.ids.narrow(0, 2 * kSeq, 2 * kSeq), part.ids));
}

TEST(Tokens, use_the_whole_vocabulary_and_nothing_else) {
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < 2000; ++i) seen.insert(token(kSeed, i / 50, i % 50, kVocab));
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kVocab));
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), kVocab - 1);
}

TEST(Tokens, differ_by_seed_and_sample) {
  const auto ids = [](std::uint64_t seed, std::int64_t sample) {
    return micro_batch(seed, sample, 1, 50, kVocab, at::kCPU).ids;
  };
  EXPECT_FALSE(at::equal(ids(1, 0), ids(2, 0)));
  EXPECT_FALSE(at::equal(ids(1, 0), ids(1, 1)));
  EXPECT_TRUE(at::equal(ids(1, 0), ids(1, 0)));
}

TEST(Weights, depend_on_seed_and_name_and_not_on_the_layout) {
  const ModelSpec model = model_kinds().front().model;
  Problem problem;
  problem.model = model;
  problem.workload.recipe = {.storage = DType::fp64,
                             .compute = DType::fp64,
                             .gradient = DType::fp64,
                             .master = {},
                             .state = DType::fp64};
  const auto load = [&](int ranks, std::int64_t bucket_elements, std::uint64_t seed) {
    return load_model(problem, flat_layout(model, ranks, bucket_elements), seed, at::kCPU);
  };
  const ModelState a = load(1, 1000000, 1), b = load(3, 2000, 1), other = load(1, 1000000, 2);
  for (std::size_t i = 0; i < a.layout.tensors.size(); ++i) {
    const at::Tensor of_a = tensor_view(a.parameters, a.layout.tensors[i]);
    EXPECT_TRUE(at::equal(of_a, tensor_view(b.parameters, b.layout.tensors[i])));
    if (of_a.dim() == 1) continue;
    EXPECT_FALSE(at::equal(of_a, tensor_view(other.parameters, other.layout.tensors[i])));
    EXPECT_NEAR(of_a.std().item<double>(), 0.02, 0.002) << a.layout.tensors[i].tensor.name;
    EXPECT_NEAR(of_a.mean().item<double>(), 0, 0.002);
  }
}

}  // namespace
}  // namespace planwright::worker::testing
