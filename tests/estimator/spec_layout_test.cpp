#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "estimator/spec/flat_layout.h"
#include "tests/support/fake_traits.h"

namespace planwright {
namespace {

std::int64_t padded(std::int64_t numel) {
  return (numel + kFlatAlignment - 1) / kFlatAlignment * kFlatAlignment;
}

struct LayoutCase {
  ModelSpec model;
  int ranks;
  std::int64_t bucket_elements;
};

std::vector<LayoutCase> cases() {
  std::vector<LayoutCase> out;
  for (const ModelSpec& model : {testing::tiny_gpt(), testing::tiny_llama()}) {
    for (const int ranks : {1, 2, 3, 7}) {
      for (const std::int64_t bucket : {1, 100, 4096, 1 << 30})
        out.push_back({model, ranks, bucket});
    }
  }
  return out;
}

TEST(SpecLayout, EveryTensorStandsAlignedInItsBucketAndOverlapsNoOther) {
  for (const auto& [model, ranks, bucket_elements] : cases()) {
    const FlatLayout layout = flat_layout(model, ranks, bucket_elements);
    std::int64_t free_from = 0;  // in reverse forward order offsets only grow
    for (auto tensor = layout.tensors.rbegin(); tensor != layout.tensors.rend(); ++tensor) {
      const FlatBucket& bucket = layout.buckets.at(static_cast<std::size_t>(tensor->bucket));
      EXPECT_EQ(tensor->offset % kFlatAlignment, 0) << tensor->tensor.name;
      EXPECT_GE(tensor->offset, free_from) << tensor->tensor.name;
      EXPECT_GE(tensor->offset, bucket.begin);
      EXPECT_LE(tensor->offset + tensor->numel, bucket.begin + bucket.numel);
      free_from = tensor->offset + tensor->numel;
    }
  }
}

TEST(SpecLayout, BucketsTileTheBufferAndDivideAmongTheRanks) {
  for (const auto& [model, ranks, bucket_elements] : cases()) {
    const FlatLayout layout = flat_layout(model, ranks, bucket_elements);
    std::int64_t end = 0;
    for (const FlatBucket& bucket : layout.buckets) {
      EXPECT_EQ(bucket.begin, end);
      EXPECT_GT(bucket.numel, 0);
      EXPECT_EQ(bucket.numel % (ranks * kFlatAlignment), 0);
      end += bucket.numel;
    }
    EXPECT_EQ(layout.numel, end);
    EXPECT_EQ(layout.shard_numel() * ranks, layout.numel);
  }
}

TEST(SpecLayout, ABucketClosesWithTheTensorThatFillsIt) {
  for (const auto& [model, ranks, bucket_elements] : cases()) {
    const FlatLayout layout = flat_layout(model, ranks, bucket_elements);
    std::vector<std::int64_t> filled(layout.buckets.size());
    std::vector<std::int64_t> last(layout.buckets.size());
    for (auto tensor = layout.tensors.rbegin(); tensor != layout.tensors.rend(); ++tensor) {
      const auto bucket = static_cast<std::size_t>(tensor->bucket);
      last[bucket] = padded(tensor->numel);
      filled[bucket] += last[bucket];
    }
    for (std::size_t i = 0; i < filled.size(); ++i) {
      EXPECT_LT(filled[i] - last[i], bucket_elements) << "was full before its last tensor";
      if (i + 1 < filled.size()) {
        EXPECT_GE(filled[i], bucket_elements);
      }
    }
  }
}

TEST(SpecLayout, PaddingIsLessThanOneLinePerTensorAndOnePerRankAndBucket) {
  for (const auto& [model, ranks, bucket_elements] : cases()) {
    const FlatLayout layout = flat_layout(model, ranks, bucket_elements);
    const auto lines = static_cast<std::int64_t>(layout.tensors.size()) +
                       static_cast<std::int64_t>(layout.buckets.size()) * ranks;
    const std::int64_t padding = layout.numel - parameter_counts(model).total;
    EXPECT_GE(padding, 0);
    EXPECT_LT(padding, lines * kFlatAlignment);
  }
}

TEST(SpecLayout, TheLastTensorOfForwardStandsFirst) {
  const FlatLayout layout = flat_layout(testing::tiny_llama(), 2, 4096);
  EXPECT_EQ(layout.tensors.front().tensor.name, "embedding");
  EXPECT_EQ(layout.tensors.back().offset, 0);
  EXPECT_EQ(layout.tensors.back().bucket, 0);
  EXPECT_EQ(layout.tensors.front().bucket, static_cast<int>(layout.buckets.size()) - 1);
}

}  // namespace
}  // namespace planwright
