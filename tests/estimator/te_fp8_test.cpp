#include "estimator/te_fp8.h"

#include <gtest/gtest.h>

#include "estimator/te_program.h"
#include "te_shapes.h"

namespace planwright::estimator {
namespace {

using tape::column_bytes;
using tape::Fp8;
using tape::fp8_of;
using tape::row_bytes;
using tape::weight_bytes;

constexpr double kHopper = 9.0, kBlackwell = 10.0;
constexpr std::int64_t kElements = std::int64_t{256} * 512;

TEST(TeFp8, TransposesBeforeBlackwellAndOnItsSmallForms) {
  for (const double capability : {0.0, 8.9, 9.0, 12.0, 12.1}) {
    EXPECT_TRUE(fp8_of(Fp8Recipe::tensorwise, capability).transposes) << capability;
  }
  for (const double capability : {10.0, 10.3, 11.0, 13.0}) {
    EXPECT_FALSE(fp8_of(Fp8Recipe::tensorwise, capability).transposes) << capability;
  }
}

TEST(TeFp8, HasScalesOfEachRecipe) {
  struct Case {
    Fp8Recipe recipe;
    std::int64_t rows, columns;  ///< beyond a byte for each element
  };
  const Case cases[] = {
      {Fp8Recipe::delayed, 0, 0},
      {Fp8Recipe::tensorwise, 0, 0},
      // 4 blocks of 128 in each of 256 rows; 2 in each of 512 columns: 4 bytes each.
      {Fp8Recipe::blockwise, 4 * 4 * 256, 4 * 2 * 512},
      // 16 blocks of 32 in each of 256 rows; 8 in each of 512 columns.
      {Fp8Recipe::mxfp8, 16 * 256, 8 * 512},
  };
  for (const Case& each : cases) {
    const Fp8 fp8 = fp8_of(each.recipe, kHopper);
    EXPECT_EQ(row_bytes(fp8, {256, 512}), kElements + each.rows) << word(each.recipe);
    EXPECT_EQ(column_bytes(fp8, {256, 512}), kElements + each.columns) << word(each.recipe);
  }
}

TEST(TeFp8, PadsScales) {
  const Fp8 small = fp8_of(Fp8Recipe::mxfp8, kBlackwell);
  EXPECT_EQ(row_bytes(small, {64, 96}), 64 * 96 + 4 * 128);     // 3 blocks, 64 rows
  EXPECT_EQ(column_bytes(small, {64, 96}), 64 * 96 + 4 * 128);  // 2 blocks, 96 columns
  const Fp8 large = fp8_of(Fp8Recipe::blockwise, kHopper);
  EXPECT_EQ(row_bytes(large, {66, 200}), 66 * 200 + 4 * 2 * 68);
}

TEST(TeFp8, HasWeightsInBothWaysUnlessOneServesBoth) {
  EXPECT_EQ(weight_bytes(fp8_of(Fp8Recipe::tensorwise, kHopper), {256, 512}), 2 * kElements);
  EXPECT_EQ(weight_bytes(fp8_of(Fp8Recipe::delayed, kBlackwell), {256, 512}), kElements);
  EXPECT_EQ(weight_bytes(fp8_of(Fp8Recipe::mxfp8, kBlackwell), {256, 512}),
            2 * kElements + 2 * kElements / 32);
  // Squares of 128: 2 × 4, and turned 4 × 2 with the 2 padded to 4.
  EXPECT_EQ(weight_bytes(fp8_of(Fp8Recipe::blockwise, kHopper), {256, 512}),
            2 * kElements + 4 * (2 * 4 + 4 * 4));
}

constexpr std::int64_t kRows = 128, kHidden = 256, kFfn = 512;

BlockSpec llama_block() { return testing::llama_block(kHidden, kFfn); }

StepShape shape_of(Fp8Recipe recipe, double capability = kHopper) {
  StepShape shape = testing::te_shape(2, kRows / 2, kHidden);
  shape.capability = capability;
  shape.te.fp8 = recipe;
  return shape;
}

using testing::kHeads;
using testing::state_of;

using Turn = StepProgram::Turn;

std::int64_t saved_by(const StepShape& shape, const BlockSpec& block) {
  StepShape wide = shape;
  wide.te.fp8 = Fp8Recipe::none;
  return state_of(wide, block) - state_of(shape, block);
}

/// Of two norms and of SwiGLU a byte is kept where it was two; attention's output is kept by the
/// kernel anyway, and with scales of earlier steps by its projection once more.
TEST(TeFp8, KeepsInputsOfProductsInABytePerElement) {
  constexpr std::int64_t kNarrowed = kRows * (2 * kHidden + kFfn);
  for (const double capability : {kHopper, kBlackwell}) {
    EXPECT_EQ(saved_by(shape_of(Fp8Recipe::tensorwise, capability), llama_block()), kNarrowed);
    EXPECT_EQ(saved_by(shape_of(Fp8Recipe::delayed, capability), llama_block()),
              kNarrowed - kRows * kHidden);
  }
  // Along columns, 4 blocks of 32 in each of their 128 rows; of 128 one, of 4 bytes.
  constexpr std::int64_t kScales = 4 * (2 * kHidden + kFfn);
  EXPECT_EQ(saved_by(shape_of(Fp8Recipe::mxfp8, kBlackwell), llama_block()), kNarrowed - kScales);
  EXPECT_EQ(saved_by(shape_of(Fp8Recipe::blockwise), llama_block()), kNarrowed - kScales);
}

TEST(TeFp8, DividesWhatIsKeptAmongTensorRanks) {
  StepShape shape = shape_of(Fp8Recipe::tensorwise);
  const std::int64_t whole = state_of(shape, llama_block());
  shape.tp = 2;
  shape.sp = true;
  EXPECT_EQ(state_of(shape, llama_block()), whole / 2);
}

/// Of each row gate, up, their product's input and the probability; inputs of products in a byte.
TEST(TeFp8, KeepsInputsOfExpertsInABytePerElement) {
  BlockSpec block = llama_block();
  block.ffn = 0;
  block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 64};
  BlockSpec twice = block;
  twice.moe->top_k = 4;
  StepShape shape = shape_of(Fp8Recipe::tensorwise);
  shape.ep = 4;
  EXPECT_EQ(state_of(shape, twice) - state_of(shape, block),
            2 * kRows * (kHidden + 4 * 64 + 64 + 4));
}

TEST(TeFp8, DropsAllThatItMakes) {
  BlockSpec experts = llama_block();
  experts.ffn = 0;
  experts.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 64, .shared_ffn = 64};
  for (const Fp8Recipe recipe :
       {Fp8Recipe::delayed, Fp8Recipe::tensorwise, Fp8Recipe::blockwise, Fp8Recipe::mxfp8}) {
    for (const double capability : {kHopper, kBlackwell}) {
      for (const BlockSpec& block : {llama_block(), experts}) {
        StepShape shape = shape_of(recipe, capability);
        shape.tp = 2;
        shape.sp = true;
        const TeProgram program(shape);
        const std::int64_t unit = program.boundary().bytes;
        EXPECT_EQ(testing::net(program.block(Turn::forward_kept, true, block)) +
                      testing::net(program.block(Turn::backward, true, block)),
                  0)
            << word(recipe);
        EXPECT_EQ(testing::net(program.block(Turn::forward_dropped, true, block)), unit);
        EXPECT_EQ(testing::net(program.block(Turn::rebuild_and_backward, true, block)), -unit);
      }
    }
  }
}

/// Where one copy serves both ways none is made for what sums along columns.
TEST(TeFp8, MakesFewerCopiesOfGradientsOnBlackwell) {
  const auto made = [](double capability) {
    std::int64_t bytes = 0;
    const TeProgram program(shape_of(Fp8Recipe::tensorwise, capability));
    const Script backward = program.block(Turn::backward, true, llama_block());
    for (const Event& event : backward.events()) {
      if (event.kind == Event::Kind::make) bytes += event.bytes;
    }
    return bytes;
  };
  // The gradients of four products' results, and attention's output in the projection's other way.
  constexpr std::int64_t kResults = (kHeads + 4) * kHidden / kHeads + 2 * kHidden + 2 * kFfn;
  EXPECT_EQ(made(kHopper) - made(kBlackwell), kRows * (kResults + kHidden));
}

}  // namespace
}  // namespace planwright::estimator
