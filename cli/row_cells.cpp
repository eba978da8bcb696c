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

std::optional<Setting> RowCells::setting(std::string_view column) {
  const std::string key(column);
  if (row_.says(column)) return Setting{meaning(column, row_.text(column)), "", key};
  const auto usual = default_cell(speaks_, column);
  if (!usual) return std::nullopt;
  assume(fmt::format("{} {}", column, *usual));
  return Setting{*usual, "", key};
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
