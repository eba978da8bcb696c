#include "cli/print_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace planwright::cli {
namespace {

std::string padded(const std::string& cell, std::size_t width, Align align) {
  return align == Align::left ? fmt::format("{:<{}}", cell, width)
                              : fmt::format("{:>{}}", cell, width);
}

std::string line(const std::vector<Column>& columns, const std::vector<std::size_t>& widths,
                 const std::vector<std::string>& cells) {
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    text += (i == 0 ? "" : "  ") + padded(cells[i], widths[i], columns[i].align);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

}  // namespace

std::string table_text(const std::vector<Column>& columns,
                       const std::vector<std::vector<std::string>>& rows, const Paint& paint) {
  if (rows.empty()) return "(none)\n";
  std::vector<std::string> titles;
  std::vector<std::size_t> widths;
  for (const Column& column : columns) {
    titles.push_back(column.title);
    widths.push_back(column.title.size());
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = paint.bold(line(columns, widths, titles)) + "\n";
  for (const auto& row : rows) text += line(columns, widths, row) + "\n";
  return text;
}

std::string gib_text(Bytes bytes, Bytes scale) {
  return fmt::format("{:.{}f}", gib(bytes), gib(scale) < 1 ? 4 : 2);
}

std::string peak_text(Bytes peak, Bytes scale) {
  return peak == Bytes{} ? kNotKnown : gib_text(peak, scale);
}

std::string ms_text(Seconds seconds) {
  const double ms = 1e3 * seconds.value;
  return ms >= 10 ? fmt::format("{:.1f}", ms) : fmt::format("{:.3f}", ms);
}

std::string rate_text(double per_second) {
  return per_second >= 10 ? fmt::format("{:.0f}", per_second) : fmt::format("{:.2f}", per_second);
}

std::string_view rate_unit(const Problem& problem) {
  return problem.model.stand_in && problem.workload.seq == 1 ? "sequences/s/device" : kTokenRate;
}

std::string counted(std::int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::vector<std::pair<std::string, std::int64_t>> most_first(
    const std::map<std::string, std::int64_t>& counts) {
  std::vector<std::pair<std::string, std::int64_t>> sorted;
  for (const auto& each : counts) {
    if (each.second > 0) sorted.emplace_back(each);
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return sorted;
}

}  // namespace planwright::cli
