#include "cli/measured_rows.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "cli/row_contradictions.h"
#include "cli/setting.h"
#include "estimator/csv.h"
#include "estimator/spec/text_file.h"
#include "estimator/spec/utf8.h"

namespace planwright::cli {
namespace {

constexpr std::string_view kIdColumn = "id";
constexpr std::int64_t kMostCount = 1'000'000'000'000;

/// The rule that a filled cell breaks; empty if it breaks none.
using CellRule = std::string (*)(const std::string& text);

std::string no_rule(const std::string&) { return ""; }

std::string any_text(const std::string& text) {
  return is_printable(text) ? "" : "must be of printable characters in UTF-8";
}

template <std::int64_t kLeast, std::int64_t kMost = kMostCount>
std::string whole(const std::string& text) {
  try {
    const std::int64_t value = parse_integer({text, "", ""}, kLeast);
    return value > kMost ? fmt::format("must be at most {}", kMost) : "";
  } catch (const InputError& error) {
    return error.fault().rule;
  }
}

std::optional<double> parsed(const std::string& text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  const bool is_number = error == std::errc{} && stop == end && std::isfinite(value);
  return is_number ? std::optional(value) : std::nullopt;
}

/// Far more than anybody has of what such columns count.
constexpr std::int64_t kMostFigure = 1'000'000'000;

template <std::int64_t kMost = kMostFigure>
std::string positive(const std::string& text) {
  const auto value = parsed(text);
  if (!value) return "must be a number";
  if (*value > static_cast<double>(kMost)) return fmt::format("must be at most {}", kMost);
  return *value > 0 ? "" : "must be above 0";
}

template <class Enum>
std::string one_word(const std::string& text) {
  return from_word<Enum>(text) ? "" : "must be one of " + join_words(all_words<Enum>());
}

struct ColumnRule {
  std::string_view name;
  CellRule rule;
};

constexpr CellRule kSize = whole<1>;
constexpr CellRule kCount = whole<0>;
constexpr CellRule kGigabytes = positive<1'000'000>;
constexpr CellRule kFlag = whole<0, 1>;
/// The ranks of four degrees are an int64, and so are their micro-batches.
constexpr CellRule kDegree = whole<1, 32768>;
constexpr CellRule kBatch = whole<1, 1'000'000>;

constexpr ColumnRule kColumns[] = {
    {kIdColumn, any_text},
    {"source", any_text},
    {"source_version", any_text},
    {"model", any_text},
    {"params_b", positive<>},
    {"layers", kSize},
    {"hidden", kSize},
    {"heads", kSize},
    {"kv_heads", kSize},
    {"ffn", kSize},
    {"vocab", kSize},
    {"experts", kCount},
    {"topk", kCount},
    {"tied", kFlag},
    {"act", any_text},
    {"seq_len", kSize},
    {"gpu", any_text},
    {"gpu_mem_gb", kGigabytes},
    {"n_gpus", kBatch},
    {"gpus_per_node", kBatch},
    {"interconnect", any_text},
    {"framework", any_text},
    {"framework_version", any_text},
    {"precision", any_text},
    {"tp", kDegree},
    {"pp", kDegree},
    {"vpp", kDegree},
    {"cp", kDegree},
    {"ep", kDegree},
    {"dp", kDegree},
    {"sp", kFlag},
    {"zero", whole<0, 3>},
    {"micro_batch", kBatch},
    {"global_batch", kSize},
    {"grad_accum", kBatch},
    {"recompute", any_text},
    {"offload", any_text},
    {"optimizer", any_text},
    {"grad_dtype", any_text},
    {"master_dtype", any_text},
    {"lora_rank", kCount},
    {"lora_targets", any_text},
    {"quant", any_text},
    {"flash", kFlag},
    {"compile", kFlag},
    {"kernels", any_text},
    {"peak_mem_gib", kGigabytes},
    {"mem_kind", one_word<MemoryKind>},
    {"peak_of", one_word<PeakOf>},
    {"tokens_s_gpu", positive<>},
    {"tflops_gpu", positive<>},
    {"mfu", positive<1>},
    {"step_time_s", positive<>},
    {"outcome", one_word<RowOutcome>},
    {"notes", no_rule},
};

const ColumnRule* find_column(std::string_view name) {
  const auto* found = std::find_if(std::begin(kColumns), std::end(kColumns),
                                   [&](const ColumnRule& column) { return column.name == name; });
  return found == std::end(kColumns) ? nullptr : found;
}

/// Spreadsheets put one before a UTF-8 text.
std::string_view without_mark(std::string_view text) {
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  return text.starts_with(kMark) ? text.substr(kMark.size()) : text;
}

std::vector<const ColumnRule*> read_header(const estimator::CsvRecord& header,
                                           const std::string& path) {
  std::vector<const ColumnRule*> columns;
  for (const std::string& name : header.cells) {
    const ColumnRule* column = find_column(name);
    const Setting place{name, path, "column"};
    if (column == nullptr) {
      refuse(place, "is not a column of such a table", nearest_word(name, measured_columns()));
    }
    if (std::find(columns.begin(), columns.end(), column) != columns.end()) {
      refuse(place, "is there twice");
    }
    columns.push_back(column);
  }
  if (std::find(columns.begin(), columns.end(), find_column(kIdColumn)) == columns.end()) {
    refuse({"", path, std::string(kIdColumn)}, "is a column that such a table must have");
  }
  return columns;
}

/// What is wrong with the record's form; empty if it has a cell for every column.
std::string broken_form(const estimator::CsvRecord& record, std::size_t columns) {
  if (record.open_quote) return "has a quote that is never closed";
  if (record.cells.size() == columns) return "";
  return fmt::format("has {} cells, and there are {} columns", record.cells.size(), columns);
}

MeasuredRow read_row(const estimator::CsvRecord& record,
                     const std::vector<const ColumnRule*>& columns, const std::string& path) {
  MeasuredRow row;
  row.line = record.line;
  const std::string place = fmt::format("line {}", record.line);
  const auto fail = [&](const std::string& key, const std::string& value, const std::string& rule) {
    if (row.fault.empty()) row.fault = InputError({path, key, value, rule, ""}).what();
  };
  const std::string form = broken_form(record, columns.size());
  if (!form.empty()) fail(place, "", form);
  for (std::size_t i = 0; i < std::min(columns.size(), record.cells.size()); ++i) {
    const std::string& cell = record.cells[i];
    if (cell.empty()) continue;
    const std::string broken = columns[i]->rule(cell);
    if (!broken.empty()) {
      fail(fmt::format("{}, {}", place, columns[i]->name), cell, broken);
      continue;
    }
    if (columns[i]->name == kIdColumn) row.id = cell;
    row.set(columns[i]->name, cell);
  }
  if (row.id.empty()) fail(place, "", "has no id");
  if (!row.fault.empty()) return row;
  if (const auto cell = contradiction(row)) {
    fail(fmt::format("{}, {}", place, cell->column), row.text(cell->column), cell->rule);
  }
  return row;
}

/// Of rows with one id the later ones cannot be told from the first.
void mark_repeated(std::vector<MeasuredRow>& rows, const std::string& path) {
  std::map<std::string, std::size_t> first;
  for (MeasuredRow& row : rows) {
    if (row.id.empty()) continue;
    const auto [known, is_new] = first.emplace(row.id, row.line);
    if (is_new || !row.fault.empty()) continue;
    row.fault = InputError({path, fmt::format("line {}, id", row.line), row.id,
                            fmt::format("is the id of line {} already", known->second), ""})
                    .what();
  }
}

/// Neither who a row is nor what came of it.
constexpr std::string_view kNoInputs[] = {"id",           "mem_kind",    "peak_mem_gib",
                                          "tokens_s_gpu", "mfu",         "outcome",
                                          "tflops_gpu",   "step_time_s", "notes"};

/// What was run, in one text.
std::string inputs_of(const MeasuredRow& row) {
  std::string inputs;
  for (const ColumnRule& column : kColumns) {
    const bool is_input =
        std::find(std::begin(kNoInputs), std::end(kNoInputs), column.name) == std::end(kNoInputs);
    if (is_input) inputs += row.text(column.name) + '\n';
  }
  return inputs;
}

/// Rows that were run alike, as far as cells tell, differ in something that has no column.
void mark_twins(std::vector<MeasuredRow>& rows) {
  std::map<std::string, MeasuredRow*> first;
  for (MeasuredRow& row : rows) {
    if (!row.fault.empty()) continue;
    const auto [known, is_new] = first.emplace(inputs_of(row), &row);
    if (is_new) continue;
    row.twin = known->second->line;
    if (known->second->twin == 0) known->second->twin = row.line;
  }
}

}  // namespace

const std::string& MeasuredRow::text(std::string_view column) const {
  static const std::string kNothing;
  if (find_column(column) == nullptr) {
    throw std::logic_error(fmt::format("measured rows have no column {}", column));
  }
  const auto found = cells_.find(column);
  return found == cells_.end() ? kNothing : found->second;
}

std::optional<std::int64_t> MeasuredRow::count(std::string_view column) const {
  const std::string& cell = text(column);
  return cell.empty() ? std::nullopt : std::optional(parse_integer({cell, "", ""}, 0));
}

std::optional<double> MeasuredRow::number(std::string_view column) const {
  return parsed(text(column));
}

std::optional<bool> MeasuredRow::flag(std::string_view column) const {
  const auto value = count(column);
  return value ? std::optional(*value == 1) : std::nullopt;
}

std::optional<MemoryKind> MeasuredRow::memory_kind() const {
  return from_word<MemoryKind>(text("mem_kind"));
}

std::optional<Bytes> MeasuredRow::peak() const {
  const auto gigabytes = number("peak_mem_gib");
  return gigabytes ? std::optional(Bytes{std::llround(*gigabytes * kGiB)}) : std::nullopt;
}

std::optional<RowOutcome> MeasuredRow::outcome() const {
  return from_word<RowOutcome>(text("outcome"));
}

void MeasuredRow::set(std::string_view column, std::string text) {
  cells_.insert_or_assign(std::string(column), std::move(text));
}

std::string origin_of(const std::string& source) {
  const std::string word = source.substr(0, source.find(' '));
  const bool is_repository = word.find('/') != std::string::npos;
  return is_repository ? word : source.substr(0, source.find_first_of(",;"));
}

std::vector<std::string> measured_columns() {
  std::vector<std::string> names;
  for (const ColumnRule& column : kColumns) names.emplace_back(column.name);
  return names;
}

std::vector<MeasuredRow> read_measured_rows(const std::string& path) {
  return measured_rows_of(read_given_file(path), path);
}

std::vector<MeasuredRow> measured_rows_of(std::string_view text, const std::string& path) {
  if (text.find('\0') != std::string_view::npos) refuse({"", path, ""}, "is not a text");
  const std::vector<estimator::CsvRecord> records = estimator::csv_records(without_mark(text));
  if (records.empty()) refuse({"", path, ""}, "is empty: its first line must name the columns");
  const auto columns = read_header(records.front(), path);
  std::vector<MeasuredRow> rows;
  for (std::size_t i = 1; i < records.size(); ++i) {
    rows.push_back(read_row(records[i], columns, path));
  }
  mark_repeated(rows, path);
  mark_twins(rows);
  return rows;
}

}  // namespace planwright::cli
