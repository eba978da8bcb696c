#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

/// Tables of configurations that somebody ran, with what they measured.
namespace planwright::cli {

/// What a published peak is one of.
enum class MemoryKind { allocated, reserved, nvidia_smi, unknown };
/// How a run is published to have ended.
enum class RowOutcome { ok, oom };
/// Which pipeline stage a published peak is one of: the fullest, or the one that the framework's
/// logger runs on.
enum class PeakOf { any, first, last };

}  // namespace planwright::cli

template <>
struct planwright::Words<planwright::cli::MemoryKind> {
  static constexpr std::array<std::string_view, 4> kWords{"allocated", "reserved", "nvidia-smi",
                                                          "unknown"};
};
template <>
struct planwright::Words<planwright::cli::PeakOf> {
  static constexpr std::array<std::string_view, 3> kWords{"any", "first", "last"};
};
template <>
struct planwright::Words<planwright::cli::RowOutcome> {
  static constexpr std::array<std::string_view, 2> kWords{"ok", "oom"};
};

namespace planwright::cli {

/// One configuration, as published. A cell that is not filled in, or whose column the file does not
/// have, says nothing. Asking for a column that no such table has is a std::logic_error.
class MeasuredRow {
 public:
  std::size_t line = 0;
  std::string id;
  std::string fault;  ///< what is wrong with it, by line and column; empty: every cell can be read

  /// The line of a row of the same table that was run alike as far as their cells tell; 0: none.
  std::size_t twin = 0;

  bool says(std::string_view column) const { return !text(column).empty(); }
  const std::string& text(std::string_view column) const;
  std::optional<std::int64_t> count(std::string_view column) const;
  std::optional<double> number(std::string_view column) const;
  /// A column of yes and no, as 1 and 0.
  std::optional<bool> flag(std::string_view column) const;
  std::optional<MemoryKind> memory_kind() const;
  std::optional<RowOutcome> outcome() const;
  std::optional<Bytes> peak() const;

  void set(std::string_view column, std::string text);

 private:
  std::map<std::string, std::string, std::less<>> cells_;  ///< those that are filled in
};

/// The origin that sources such as a repository and the file in it have in common.
std::string origin_of(const std::string& source);

/// The columns that such a table may have, in their usual order.
std::vector<std::string> measured_columns();

/// A CSV file with a line of column names. A row with a cell that cannot be read has a fault; an
/// InputError for a file without an `id` column, or with a column that is unknown or there twice.
std::vector<MeasuredRow> read_measured_rows(const std::string& path);
/// The same of a text that stands in `path`.
std::vector<MeasuredRow> measured_rows_of(std::string_view text, const std::string& path);

}  // namespace planwright::cli
