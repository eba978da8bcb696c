#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "estimator/spec/flat_layout.h"
#include "estimator/spec/model_part.h"
#include "estimator/spec/rank_grid.h"
#include "tests/support/layouts.h"

namespace planwright {
namespace {

using testing::layout_model;
using testing::LayoutModel;

const PartTensor& find(const std::vector<PartTensor>& parts, const std::string& name) {
  return *std::find_if(parts.begin(), parts.end(),
                       [&](const PartTensor& part) { return part.tensor.name == name; });
}

/// The Llama kind: 5 blocks, h 44, 8 heads of 6 with 4 key/value heads, f 52, v 67.
TEST(PartTensors, DivideRowsOrColumnsAmongTensorRanks) {
  const ModelSpec model = layout_model(LayoutModel::llama);
  const auto parts = part_tensors(model, model_part(model, {.tp = 2}, 1));
  const PartTensor& qkv = find(parts, "blocks.0.qkv.weight");
  EXPECT_EQ(qkv.tensor.shape, (std::vector<std::int64_t>{24 + 12 + 12, 44}));
  EXPECT_EQ(qkv.rows, (std::vector<Stretch>{{24, 24}, {48 + 12, 12}, {72 + 12, 12}}));
  EXPECT_EQ(find(parts, "blocks.0.gate_up.weight").rows,
            (std::vector<Stretch>{{26, 26}, {52 + 26, 26}}));
  EXPECT_EQ(find(parts, "blocks.0.down.weight").columns, (Stretch{26, 26}));
  EXPECT_EQ(find(parts, "embedding").rows, (std::vector<Stretch>{{34, 34}})) << "67 and a padding";
  EXPECT_EQ(find(parts, "final_norm.weight").rows, (std::vector<Stretch>{{0, 44}}));
}

TEST(PartTensors, GiveTheFirstStagesOneBlockMoreWhereTheyDoNotDivide) {
  const ModelSpec model = layout_model(LayoutModel::llama);
  EXPECT_EQ(stage_layers(model, {.pp = 3}), (std::vector<std::int64_t>{2, 2, 1}));
  Candidate uneven{.pp = 2};
  uneven.stages = {{1, {}, {}}, {4, {}, {}}};
  EXPECT_EQ(stage_layers(model, uneven), (std::vector<std::int64_t>{1, 4}));
}

/// Every element of every weight belongs to some rank, and to as many as there are replicas of it.
TEST(PartTensors, OfAllRanksTogetherAreTheModel) {
  for (const LayoutModel which : {LayoutModel::gpt_tied, LayoutModel::llama}) {
    const ModelSpec model = layout_model(which);
    for (const Candidate& c : testing::layouts()) {
      std::map<std::string, std::vector<int>> seen;
      for (const ParameterTensor& tensor : parameter_tensors(model)) {
        seen[tensor.name].resize(static_cast<std::size_t>(tensor.numel()));
      }
      for (int rank = 0; rank < c.world(); ++rank) {
        if (place_of(c, rank).dp != 0) continue;
        for (const PartTensor& part : part_tensors(model, model_part(model, c, rank))) {
          const std::int64_t width = part.whole.size() == 2 ? part.whole[1] : 1;
          for (const Stretch& rows : part.rows) {
            const std::int64_t end = std::min(rows.first + rows.count, part.whole[0]);
            for (std::int64_t row = rows.first; row < end; ++row) {
              for (std::int64_t i = 0; i < part.columns.count; ++i) {
                ++seen[part.tensor.name].at(
                    static_cast<std::size_t>(row * width + part.columns.first + i));
              }
            }
          }
        }
      }
      for (const auto& [name, counts] : seen) {
        const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
        EXPECT_GE(*least, 1) << describe(c) << " " << name;
        EXPECT_EQ(*least, *most) << describe(c) << " " << name;
      }
    }
  }
}

TEST(FlatLayout, PutsPartialGradientsLastInTheirBucket) {
  const ModelSpec model = layout_model(LayoutModel::gpt_tied);
  const FlatLayout layout = flat_layout(model, Candidate{.tp = 2, .sp = true}, 0, 3000);
  ASSERT_GT(layout.buckets.size(), 1u);
  for (const FlatTensor& tensor : layout.tensors) {
    const FlatBucket& bucket = layout.buckets[static_cast<std::size_t>(tensor.bucket)];
    const bool among = tensor.offset >= bucket.partial_begin &&
                       tensor.offset < bucket.partial_begin + bucket.partial_numel;
    EXPECT_EQ(among, tensor.partial_gradient) << tensor.tensor.name;
  }
}

TEST(FlatLayout, IsAlikeOnBothStagesForTheMatrixTheyShare) {
  const ModelSpec model = layout_model(LayoutModel::gpt_tied);
  std::vector<FlatBucket> shared;
  for (const int rank : {0, 3}) {
    const Candidate c{.pp = 2, .dp = 2, .zero = 1};
    for (const FlatBucket& bucket : flat_layout(model, c, rank, 3000).buckets) {
      if (bucket.shared) shared.push_back(bucket);
    }
  }
  ASSERT_EQ(shared.size(), 2u);
  EXPECT_EQ(shared[0].numel, shared[1].numel);
}

TEST(FlatLayout, WithZero3ClosesABucketWithEachUnit) {
  const ModelSpec model = layout_model(LayoutModel::llama);
  const FlatLayout layout = flat_layout(model, Candidate{.dp = 2, .zero = 3}, 0, 1);
  EXPECT_EQ(layout.buckets.size(), 7u) << "head, five blocks, embedding";
  for (const FlatBucket& bucket : layout.buckets) EXPECT_EQ(bucket.opened_by, bucket.completed_by);
}

}  // namespace
}  // namespace planwright
