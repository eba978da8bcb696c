#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planwright::estimator {

/// One record of a CSV text. RFC 4180: cells may be quoted, quotes inside doubled.
struct CsvRecord {
  std::size_t line = 0;  ///< that it begins in, from 1; quoted cells may go over several
  std::vector<std::string> cells;
  bool open_quote = false;  ///< the text ended inside a quoted cell
};

/// All of them; lines with nothing in them are left out.
std::vector<CsvRecord> csv_records(std::string_view text);

/// A table of text with named columns.
class Csv {
 public:
  /// `name` stands in the std::logic_error that a malformed shipped table is.
  Csv(std::string_view text, std::string name);

  std::size_t rows() const { return rows_.size(); }
  const std::string& cell(std::size_t row, std::string_view column) const;
  /// Nothing where the cell is empty.
  std::optional<double> number_if_known(std::size_t row, std::string_view column) const;
  /// `fallback` where the cell is empty.
  double number(std::size_t row, std::string_view column, double fallback) const;

 private:
  std::string name_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace planwright::estimator
