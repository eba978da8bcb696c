#include "launcher/line_splitter.h"

#include <gtest/gtest.h>

#include <vector>

namespace planwright::launcher {
namespace {

struct Case {
  const char* name;
  std::vector<std::string> pieces;
  std::vector<std::string> lines;
};

std::vector<std::string> split(const std::vector<std::string>& pieces) {
  LineSplitter splitter(8);
  std::vector<std::string> lines;
  for (const std::string& piece : pieces) {
    splitter.append(piece);
    while (const auto line = splitter.next()) lines.push_back(*line);
  }
  return lines;
}

TEST(LineSplitter, HandsOutWholeLinesHoweverTheyArrive) {
  const Case cases[] = {
      {"one", {"a\n"}, {"a"}},
      {"several in a piece", {"a\nb\nc\n"}, {"a", "b", "c"}},
      {"one in several pieces", {"a", "b", "c\n"}, {"abc"}},
      {"no end yet", {"a\nb"}, {"a"}},
      {"empty lines", {"\n\n"}, {"", ""}},
      {"a long line is cut", {"0123456789\nx\n"}, {"01234567", "x"}},
      {"a long line in pieces is cut once",
       {"0123456789", "abcdefghijkl", "m\nx\n"},
       {"01234567", "x"}},
      {"a line of the limit is whole", {"01234567\n"}, {"01234567"}},
      {"endless bytes hold one line", {"0123456789", "0123456789", "0123456789"}, {"01234567"}},
  };
  for (const Case& each : cases) EXPECT_EQ(split(each.pieces), each.lines) << each.name;
}

}  // namespace
}  // namespace planwright::launcher
