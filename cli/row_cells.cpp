#include "cli/row_cells.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "cli/row_words.h"

namespace planwright::cli {

RowCells::RowCells(const MeasuredRow& row, std::string target) : row_(row) {
  for (const char* column : {"framework_version", "framework"}) {
    for (std::string& each : dialects_of(column, row.text(column))) {
      speaks_.push_back(std::move(each));
    }
  }
  speaks_.push_back(std::move(target));
}

std::optional<std::string> RowCells::default_of(std::string_view what) const {
  return default_cell(speaks_, what, [&](std::string_view column) { return row_.text(column); });
}

bool RowCells::knows(std::string_view column) const {
  return row_.says(column) || default_of(column);
}

std::optional<Setting> RowCells::usual(std::string_view what) {
  const auto value = default_of(what);
  if (!value) return std::nullopt;
  assume(fmt::format("{} {}", what, *value));
  return Setting{*value, "", std::string(what)};
}

std::optional<Setting> RowCells::setting(std::string_view column) {
  if (!row_.says(column)) return usual(column);
  return Setting{meaning(column, row_.text(column)), "", std::string(column)};
}

Setting RowCells::required(std::string_view column) {
  auto found = setting(column);
  if (!found) refuse_missing(column);
  return *std::move(found);
}

std::int64_t RowCells::count(std::string_view column) { return parse_integer(required(column), 0); }

bool RowCells::flag(std::string_view column) { return count(column) == 1; }

void RowCells::assume(std::string what) {
  if (std::find(assumed_.begin(), assumed_.end(), what) != assumed_.end()) return;
  assumed_.push_back(std::move(what));
}

void refuse_missing(std::string_view column) {
  throw InputError({"", "", "", fmt::format("missing column: {}", column), ""});
}

}  // namespace planwright::cli
