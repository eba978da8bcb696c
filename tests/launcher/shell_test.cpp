#include "launcher/shell.h"

#include <gtest/gtest.h>

#include "tests/support/emit_requests.h"

namespace planwright::launcher {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWords, AreThoseOfAPosixShell) {
  const std::pair<const char*, Words> cases[] = {
      {"", {}},
      {" \t\n", {}},
      {"a  b\tc\nd", {"a", "b", "c", "d"}},
      {"--name 'a b'", {"--name", "a b"}},
      {"'a'\"b\"c''", {"abc"}},
      {"'' \"\"", {"", ""}},
      {R"('a\"b$')", {R"(a\"b$)"}},
      {R"("a\"b\\c\$d\e")", {R"(a"b\c$d\e)"}},
      {R"(a\ b \'\\ \$x)", {"a b", R"('\)", "$x"}},
      {"a\\\nb \"c\\\nd\"", {"ab", "cd"}},
      {"$HOME *.py #c", {"$HOME", "*.py", "#c"}},
  };
  for (const auto& [text, words] : cases) EXPECT_EQ(shell_words(text), words) << text;
}

TEST(ShellWords, NeedQuotesThatAreClosed) {
  for (const char* text : {"'a", "\"a", "a 'b\\'c'", "a\\", "\"a\\", "\"a\\\""}) {
    EXPECT_EQ(shell_words(text), std::nullopt) << text;
  }
}

TEST(ShellWords, AreWhatALineWasMadeOf) {
  const Words words = testing::hostile_texts();
  EXPECT_EQ(shell_words(shell_line(words)), words);
}

}  // namespace
}  // namespace planwright::launcher
