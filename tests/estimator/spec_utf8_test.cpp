#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "estimator/spec/utf8.h"

namespace planwright {
namespace {

TEST(Utf8, IsPrintableWithoutControlCharacters) {
  for (const char* text : {"", "plain", "0.97 × 1.8", "\xE2\x80\x94", "\xF0\x9F\x98\x80"}) {
    EXPECT_TRUE(is_printable(text)) << text;
  }
  for (const char* text : {"\x1b[31m", "a\n", "\x7f", "\xff", "\xc2\x9b", "\xe2\x80", "\xc0\x80"}) {
    EXPECT_FALSE(is_printable(text)) << InputError({"", "", text, "", ""}).what();
  }
}

TEST(InputErrors, LeaveTheTerminalAsItIs) {
  EXPECT_STREQ(InputError({"f", "k", "\x1b[31m\xff\xc2\x9b \xC3\xA9", "rule", ""}).what(),
               "f: k = \\x1b[31m\\xff\\xc2\\x9b \xC3\xA9: rule");
}

}  // namespace
}  // namespace planwright
