#include "probes/worker/element.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace planwright::worker::testing {
namespace {

/// Every half, in floats between which nothing is rounded.
template <class Body>
void over_all_halves(const Body& body) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    body(c10::Half(static_cast<std::uint16_t>(bits), c10::Half::from_bits()));
  }
}

TEST(Element, OfEveryHalfIsWidenedAsTheLibraryDoes) {
  over_all_halves([](c10::Half half) {
    const float expected = static_cast<float>(half);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(wide(half))) << half.x;
    } else {
      EXPECT_EQ(wide(half), expected) << half.x;
      EXPECT_EQ(std::signbit(wide(half)), std::signbit(expected)) << half.x;
    }
  });
}

/// At a half, half way to the next one, and a little before and after that.
TEST(Element, IsRoundedToAHalfAsTheLibraryDoes) {
  const auto expect_same = [](float x) {
    const c10::Half expected(x);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(wide(narrow<c10::Half>(x))));
    } else {
      EXPECT_EQ(narrow<c10::Half>(x).x, expected.x) << x;
    }
  };
  over_all_halves([&](c10::Half half) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(half));
    for (const std::uint32_t beyond : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x1fffU}) {
      expect_same(std::bit_cast<float>(bits + beyond));
    }
  });
  for (const float x : {0x1p-24F, 0x1p-25F, 0x1.8p-25F, 0x1p-26F, 1e-30F, 65504.0F, 65519.99F,
                        65520.0F, 1e30F, std::numeric_limits<float>::infinity()}) {
    expect_same(x);
    expect_same(-x);
  }
}

TEST(Element, IsRoundedToABfloat16AsTheLibraryDoes) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 4093) {
    const auto x = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(wide(narrow<c10::BFloat16>(x))));
    } else {
      EXPECT_EQ(narrow<c10::BFloat16>(x).x, c10::BFloat16(x).x) << x;
    }
  }
}

}  // namespace
}  // namespace planwright::worker::testing
