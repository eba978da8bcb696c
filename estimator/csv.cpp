#include "estimator/csv.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>
#include <utility>

namespace planwright::estimator {
namespace {

/// Takes one record off `text`.
CsvRecord take_record(std::string_view& text) {
  CsvRecord record{.cells = std::vector<std::string>(1)};
  auto& cells = record.cells;
  bool quoted = false;
  std::size_t i = 0;
  for (; i < text.size() && (quoted || text[i] != '\n'); ++i) {
    const char c = text[i];
    if (c == '"' && quoted && i + 1 < text.size() && text[i + 1] == '"') {
      cells.back() += c;
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  record.open_quote = quoted;
  text.remove_prefix(std::min(i + 1, text.size()));
  return record;
}

bool is_empty(const CsvRecord& record) {
  return record.cells.size() == 1 && record.cells.front().empty();
}

}  // namespace

std::vector<CsvRecord> csv_records(std::string_view text) {
  std::vector<CsvRecord> records;
  std::size_t line = 1;
  while (!text.empty()) {
    const std::string_view before = text;
    CsvRecord record = take_record(text);
    record.line = line;
    const std::string_view taken = before.substr(0, before.size() - text.size());
    line += static_cast<std::size_t>(std::count(taken.begin(), taken.end(), '\n'));
    if (!is_empty(record)) records.push_back(std::move(record));
  }
  return records;
}

Csv::Csv(std::string_view text, std::string name) : name_(std::move(name)) {
  for (CsvRecord& record : csv_records(text)) {
    if (columns_.empty()) {
      columns_ = std::move(record.cells);
      continue;
    }
    if (record.cells.size() != columns_.size()) {
      throw std::logic_error(name_ + ": line " + std::to_string(record.line) + " has " +
                             std::to_string(record.cells.size()) + " cells, not " +
                             std::to_string(columns_.size()));
    }
    rows_.push_back(std::move(record.cells));
  }
}

const std::string& Csv::cell(std::size_t row, std::string_view column) const {
  const auto found = std::find(columns_.begin(), columns_.end(), column);
  if (found == columns_.end()) {
    throw std::logic_error(name_ + ": no column " + std::string(column));
  }
  return rows_.at(row)[static_cast<std::size_t>(found - columns_.begin())];
}

double Csv::number(std::size_t row, std::string_view column, double fallback) const {
  return number_if_known(row, column).value_or(fallback);
}

std::optional<double> Csv::number_if_known(std::size_t row, std::string_view column) const {
  const std::string& text = cell(row, column);
  if (text.empty()) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw std::logic_error(name_ + ": " + text + " in column " + std::string(column) +
                           " is not a number");
  }
  return value;
}

}  // namespace planwright::estimator
