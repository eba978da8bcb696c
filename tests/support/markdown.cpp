#include "tests/support/markdown.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <stdexcept>
#include <utility>

namespace planwright::testing {
namespace {

bool starts_with_digit(const std::string& cell) {
  return !cell.empty() && std::isdigit(static_cast<unsigned char>(cell.front())) != 0;
}

}  // namespace

MarkdownTable::MarkdownTable(std::vector<std::string> heads) { rows_.push_back(std::move(heads)); }

void MarkdownTable::add(std::vector<std::string> cells) {
  if (cells.size() != rows_.front().size()) throw std::logic_error("a row of another width");
  rows_.push_back(std::move(cells));
}

std::string MarkdownTable::text() const {
  std::vector<std::string> lines(rows_.size() + 1);
  for (std::size_t column = 0; column < rows_.front().size(); ++column) {
    std::size_t width = 3;
    bool numbers = rows_.size() > 1;
    for (std::size_t i = 0; i < rows_.size(); ++i) {
      width = std::max(width, rows_[i][column].size());
      numbers = numbers && (i == 0 || starts_with_digit(rows_[i][column]));
    }
    const auto cell = [&](const std::string& text) {
      return numbers ? fmt::format("| {:>{}} ", text, width)
                     : fmt::format("| {:<{}} ", text, width);
    };
    lines[0] += cell(rows_[0][column]);
    lines[1] += "| " + std::string(width - 1, '-') + (numbers ? ": " : "- ");
    for (std::size_t i = 1; i < rows_.size(); ++i) lines[i + 1] += cell(rows_[i][column]);
  }
  std::string text;
  for (const std::string& line : lines) text += line + "|\n";
  return text;
}

}  // namespace planwright::testing
