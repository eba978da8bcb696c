#include <gtest/gtest.h>

#include "estimator/spec/recipes.h"
#include "estimator/spec/weight_format.h"
#include "tests/support/fault.h"

namespace planwright {
namespace {

using testing::fault_of;

double gigabytes(Bytes bytes) { return static_cast<double>(bytes.value) / 1e9; }
WeightFormat named(const char* name) { return find_weight_format(name, "", ""); }
std::int64_t bytes_in(const char* name, std::int64_t rows, std::int64_t columns) {
  return stored_bytes(named(name), rows, columns).value;
}

TEST(WeightFormat, A32BModelIs64GBIn16BitsAnd16GBIn4) {
  constexpr std::int64_t kRows = 32'000'000;
  EXPECT_DOUBLE_EQ(gigabytes(stored_bytes(plain_format(WeightType::fp16), kRows, 1000)), 64);
  EXPECT_DOUBLE_EQ(gigabytes(stored_bytes(named("int4"), kRows, 1000)), 16);
}

TEST(WeightFormat, CountsScalesZeroPointsAndIndices) {
  constexpr std::int64_t kRows = 4096, kColumns = 11008, kElements = kRows * kColumns;
  EXPECT_EQ(bytes_in("nf4", kRows, kColumns), kElements / 2 + kElements / 64 * 4);
  EXPECT_EQ(bytes_in("nf4-dq", kRows, kColumns),
            kElements / 2 + kElements / 64 + kElements / 64 / 256 * 4);
  EXPECT_EQ(bytes_in("int8", kRows, kColumns), kElements + kRows * 4);
  EXPECT_EQ(bytes_in("awq", kRows, kColumns), kElements / 2 + kRows * 86 * (16 + 4) / 8);
  EXPECT_EQ(bytes_in("gptq", kRows, kColumns),
            kElements / 2 + kRows * 86 * (16 + 4) / 8 + kColumns * 4);
  EXPECT_EQ(bytes_in("fp8-block", kRows, kColumns), kElements + 32 * 86 * 4);
  EXPECT_EQ(bytes_in("mxfp4", kRows, kColumns), kElements / 2 + kElements / 32);
}

TEST(WeightFormat, APartOfAGroupHasAWholeScale) {
  EXPECT_EQ(bytes_in("fp8-block", 129, 128), 129 * 128 + 2 * 4);
  EXPECT_EQ(bytes_in("nf4", 1, 65), 33 + 2 * 4);
}

TEST(WeightFormat, StructuredSparsityHalvesWeightsAndAddsIndices) {
  constexpr std::int64_t kElements = 4096 * 4096;
  EXPECT_EQ(bytes_in("sparse-2:4", 4096, 4096), 2 * kElements / 2 + kElements / 8);
}

TEST(WeightFormat, AnUnknownNameIsRefusedWithTheNearest) {
  const InputFault fault = fault_of([] { find_weight_format("nf5", "f.toml", "[job] quant"); });
  EXPECT_EQ(fault.file, "f.toml");
  EXPECT_EQ(fault.key, "[job] quant");
  EXPECT_EQ(fault.nearest, "nf4");
}

TEST(Recipes, HaveTheBytesPerParameterTheyAreKnownBy) {
  for (const StandardRecipe& each : standard_recipes()) {
    EXPECT_EQ(bytes_per_parameter(each.recipe, OptimizerKind::adamw), each.bytes) << each.name;
    EXPECT_FALSE(each.source.empty());
  }
}

TEST(Recipes, StatesOf7BWithAdamW) {  // the three popular figures, decimal
  constexpr double kParameters = 7e9;
  const auto states = [&](const PrecisionRecipe& recipe) {
    return kParameters * bytes_per_parameter(recipe, OptimizerKind::adamw) / 1e9;
  };
  using enum DType;
  EXPECT_DOUBLE_EQ(states({fp32, fp32, fp32, {}, fp32}), 112);
  EXPECT_DOUBLE_EQ(states({bf16, bf16, bf16, fp32, fp32}), 112);
  EXPECT_DOUBLE_EQ(states({bf16, bf16, bf16, {}, fp32}), 84);
}

TEST(Recipes, StatesOfEveryOptimizer) {
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::adamw, DType::fp32), 8);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::adamw, DType::bf16), 4);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::lion, DType::fp32), 4);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::sgd, DType::fp32), 4);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::adafactor, DType::fp32), 0);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::adam8bit, DType::fp32), 2 + 8.0 / 256);
  EXPECT_EQ(state_bytes_per_parameter(OptimizerKind::paged_adam8bit, DType::fp32), 2 + 8.0 / 256);
}

}  // namespace
}  // namespace planwright
