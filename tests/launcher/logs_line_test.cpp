#include <gtest/gtest.h>

#include <vector>

#include "launcher/logs/line_cutter.h"
#include "launcher/logs/line_text.h"
#include "launcher/logs/text_set.h"

namespace planwright::launcher {
namespace {

std::vector<std::string> cut_lines(const std::vector<std::string>& pieces) {
  LineCutter cutter(8);
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line, bool cut) {
    lines.push_back(std::string(line) + (cut ? "~" : ""));
  };
  for (const std::string& piece : pieces) cutter.append(piece, take);
  cutter.finish(take);
  return lines;
}

TEST(LogLine, EndsWithANewlineOrACarriageReturn) {
  struct Case {
    std::vector<std::string> pieces, lines;
  };
  const Case cases[] = {
      {{"a\nb\n"}, {"a", "b"}},
      {{"a\r\nb\r\n"}, {"a", "b"}},
      {{"\rone\rtwo\n"}, {"one", "two"}},
      {{"a", "b", "c\nd"}, {"abc", "d~"}},
      {{"a\r", "\nb\n"}, {"a", "b"}},
      {{"\n\n"}, {}},
      {{"01234567\nx\n"}, {"01234567", "x"}},
      {{"0123456789\nx\n"}, {"01234567~", "x"}},
      {{"0123", "45678", "9\nx\n"}, {"01234567~", "x"}},
      {{"0123456789", "0123456789"}, {"01234567~"}},
  };
  for (const Case& each : cases) EXPECT_EQ(cut_lines(each.pieces), each.lines);
}

TEST(LogLine, IsNotWholeOnEitherSideOfAGap) {
  LineCutter cutter(8);
  std::string lines;
  const auto take = [&](std::string_view line, bool cut) {
    lines += std::string(line) + (cut ? "~" : "") + ";";
  };
  cutter.append("a\nbc", take);
  cutter.gap(take);
  cutter.append("de", take);
  cutter.append("f\rg\n", take);
  cutter.gap(take);
  cutter.append("\nh\n", take);
  cutter.finish(take);
  EXPECT_EQ(lines, "a;bc~;g;h;");
}

TEST(LogLine, IsReadWithoutTerminalEscapes) {
  struct Case {
    std::string line, text;
  };
  const Case cases[] = {
      {"plain", "plain"},
      {"\x1b[31mstep: \x1b[1;32m1\x1b[0m", "step: 1"},
      {"\x1b[38;2;180;60;0mx\x1b[39m", "x"},
      {"a\x1b[2K\x1b[Ab", "ab"},
      {"a\x1b]0;title\x07"
       "b",
       "ab"},
      {"a\x1b]0;title\x1b\\b", "ab"},
      {"a\x1b(Bb", "ab"},
      {"a\x1b", "a"},
      {"a\x1b[3", "a"},
  };
  std::string storage;
  for (const Case& each : cases) EXPECT_EQ(without_escapes(each.line, storage), each.text);
}

TEST(LogLine, NamesItsRankInTheWayOfManyLaunchers) {
  struct Case {
    const char* line;
    int rank;  ///< -1: none
    const char* text;
  };
  const Case cases[] = {
      {"[rank3]: Traceback", 3, "Traceback"},
      {"[rank3]:   File", 3, "  File"},
      {"[default5]:x", 5, "x"},
      {"[default5]:[rank13]: x", 13, "x"},
      {"[rank13]:[default5]: x", 13, "x"},
      {"[trainer2]:x", 2, "x"},
      {"[7]:x", 7, "x"},
      {"0: x", 0, "x"},
      {"  12: x", 12, "x"},
      {"12:", 12, ""},
      {"[1,4]<stdout>:x", 4, "x"},
      {"[1,4]<stderr>:x", 4, "x"},
      {"[Rank 6] step=1", 6, "[Rank 6] step=1"},
      {"[2026-01-05 09:10:03,290] [INFO] [logging.py:107:log_dist] [Rank 2] x", 2,
       "[2026-01-05 09:10:03,290] [INFO] [logging.py:107:log_dist] [Rank 2] x"},
      {"[Rank -1] x", -1, "[Rank -1] x"},
      {"12:30:45 x", -1, "12:30:45 x"},
      {"[12/100] x", -1, "[12/100] x"},
      {"[titan] x", -1, "[titan] x"},
      {"[rank99999999]: x", -1, "x"},
      {"[rank]: x", -1, "[rank]: x"},
      {"x [rank3]: y", -1, "x [rank3]: y"},
      {"[", -1, "["},
      {"", -1, ""},
  };
  for (const Case& each : cases) {
    const RankedLine ranked = split_rank(each.line);
    EXPECT_EQ(ranked.rank.value_or(-1), each.rank) << each.line;
    EXPECT_EQ(ranked.text, each.text) << each.line;
  }
}

TEST(LogLine, IsShownAsUtf8WithoutControls) {
  struct Case {
    std::string line, shown;
  };
  const Case cases[] = {
      {"  plain \t", "plain"},
      {std::string("a\0b", 3),
       "a\xEF\xBF\xBD"
       "b"},
      {"gr\xC3\xBC\xC3\x9F", "gr\xC3\xBC\xC3\x9F"},
      {"\xE2\x96\x88\xF0\x9F\x98\x80", "\xE2\x96\x88\xF0\x9F\x98\x80"},
      {"a\xFF"
       "b",
       "a\xEF\xBF\xBD"
       "b"},
      {"a\xC3", "a\xEF\xBF\xBD"},
      {"\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD"},
      {"\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD"},
  };
  for (const Case& each : cases) EXPECT_EQ(printable(each.line, 100), each.shown);
  EXPECT_EQ(printable("abcdef", 3), "abc");
  EXPECT_EQ(printable("ab\xC3\xBC", 3), "ab");
}

std::vector<std::size_t> places_of(const std::string& text, const std::string& line) {
  std::vector<std::size_t> places;
  for (auto at = line.find(text); at != line.npos; at = line.find(text, at + 1)) {
    places.push_back(at);
  }
  return places;
}

TEST(LogLine, HoldsTheTextsThatAreLookedFor) {
  TextSet texts;
  const std::vector<std::string> all{"loss", "tokens/s", "ab", "out of memory", "memory", "s: "};
  for (const std::string& each : all) texts.add(each);
  EXPECT_EQ(texts.add("loss"), 0U);
  EXPECT_EQ(texts.size(), all.size());
  for (const std::string line :
       {"", "a", "loss", "the loss", "los", "CUDA out of memory", "aab tokens/s: 1", "memor",
        "out of memor", "tokens/stokens/s", "memory", "ababab loss loss: lossloss: loss"}) {
    std::vector<std::vector<std::size_t>> found(all.size());
    texts.search(line, [&](std::size_t number, std::size_t at) { found[number].push_back(at); });
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(found[i], places_of(all[i], line)) << all[i] << " in " << line;
    }
  }
}

TEST(LogLine, IsLikelierToHoldAShortOrCommonText) {
  EXPECT_GT(commonness("step"), commonness("steq"));
  EXPECT_GT(commonness("step:"), commonness("step_time"));
  EXPECT_GT(commonness("%|"), commonness("step"));
  EXPECT_GT(commonness("|"), commonness("%|"));
}

}  // namespace
}  // namespace planwright::launcher
