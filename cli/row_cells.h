#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/measured_rows.h"
#include "cli/setting.h"

namespace planwright::cli {

/// A row as its framework reads it, in the words of the command line: what it says, what may be
/// assumed where it says nothing, and what was. Settings name the column as their key.
class RowCells {
 public:
  /// `target` is who the framework is here; how it was used may be seen from the row. The row must
  /// outlive this.
  RowCells(const MeasuredRow& row, std::string target);

  const MeasuredRow& row() const { return row_; }

  /// Whether there is a cell or a default; nothing is assumed.
  bool knows(std::string_view column) const;
  /// The cell, else the target's default, which is then assumed; nothing if there is neither.
  std::optional<Setting> setting(std::string_view column);
  /// The target's default, whatever a cell says, or of what no column is of; assumed if there is
  /// one.
  std::optional<Setting> usual(std::string_view column);
  /// The cell or the default, or an InputError that calls the column missing.
  Setting required(std::string_view column);
  std::int64_t count(std::string_view column);
  bool flag(std::string_view column);

  void assume(std::string what);
  const std::vector<std::string>& assumed() const { return assumed_; }

 private:
  std::optional<std::string> default_of(std::string_view what) const;

  const MeasuredRow& row_;
  std::vector<std::string> speaks_;  ///< dialects of the framework, and the target that it is
  std::vector<std::string> assumed_;
};

/// Throws the InputError of a row that says nothing in a column that the answer depends on.
[[noreturn]] void refuse_missing(std::string_view column);

}  // namespace planwright::cli
