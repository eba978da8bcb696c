#include "cli/row_words.h"

#include <algorithm>
#include <stdexcept>

#include "cli/embedded.h"
#include "estimator/csv.h"

namespace planwright::cli {
namespace {

using estimator::Csv;

const Csv& alias_table() {
  static const Csv kTable(row_data("row_aliases.csv"), "row_aliases.csv");
  return kTable;
}

const Csv& default_table() {
  static const Csv kTable(row_data("row_defaults.csv"), "row_defaults.csv");
  return kTable;
}

const std::vector<RowBlock>& blocks() {
  static const std::vector<RowBlock> kBlocks = [] {
    const Csv table(row_data("row_blocks.csv"), "row_blocks.csv");
    std::vector<RowBlock> made;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      made.push_back({.act = table.cell(row, "act"),
                      .like = table.cell(row, "like"),
                      .family = table.cell(row, "family"),
                      .mlp = table.cell(row, "mlp"),
                      .activation = table.cell(row, "activation"),
                      .norm = table.cell(row, "norm"),
                      .positions = table.cell(row, "positions"),
                      .biases = table.number(row, "biases", 0) > 0,
                      .dropout = table.cell(row, "dropout")});
    }
    return made;
  }();
  return kBlocks;
}

/// "column", or "column if other=text", of rows that have such a cell.
bool is_of(const std::string& spelling, std::string_view column, const CellOf& cell) {
  constexpr std::string_view kIf = " if ";
  const std::size_t end = spelling.find(kIf);
  if (spelling.substr(0, end) != column) return false;
  if (end == std::string::npos) return true;
  const std::string condition = spelling.substr(end + kIf.size());
  const std::size_t equals = condition.find('=');
  return cell(condition.substr(0, equals)) == condition.substr(equals + 1);
}

std::optional<std::string> default_of(std::string_view target, std::string_view column,
                                      const CellOf& cell) {
  const Csv& table = default_table();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.cell(row, "target") != target) continue;
    if (is_of(table.cell(row, "column"), column, cell)) return table.cell(row, "value");
  }
  return std::nullopt;
}

/// A final star stands for any rest.
bool is_spelt(const std::string& pattern, const std::string& spelling) {
  if (!pattern.ends_with('*')) return same_letters(pattern, spelling);
  return spelling.starts_with(std::string_view(pattern.data(), pattern.size() - 1));
}

/// "layers:*" stands for every spelling that begins as it does, and the star for the rest of it.
std::optional<std::string> meaning_if(const std::string& alias, const std::string& word,
                                      const std::string& spelling) {
  if (!is_spelt(alias, spelling)) return std::nullopt;
  if (!alias.ends_with('*')) return word;
  return word.substr(0, word.size() - 1) + spelling.substr(alias.size() - 1);
}

}  // namespace

std::string_view row_data(std::string_view name) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == name) return file.text;
  }
  throw std::logic_error("no embedded file " + std::string(name));
}

std::optional<std::string> known_meaning(std::string_view column, const std::string& spelling) {
  const Csv& table = alias_table();
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.cell(row, "column") != column) continue;
    auto word = meaning_if(table.cell(row, "spelling"), table.cell(row, "means"), spelling);
    if (word) return word;
  }
  return std::nullopt;
}

std::string meaning(std::string_view column, const std::string& spelling) {
  return known_meaning(column, spelling).value_or(spelling);
}

std::vector<std::string> dialects_of(std::string_view column, const std::string& spelling) {
  static const Csv kTable(row_data("row_dialects.csv"), "row_dialects.csv");
  std::vector<std::string> found;
  for (std::size_t row = 0; row < kTable.rows(); ++row) {
    if (kTable.cell(row, "column") != column) continue;
    if (!is_spelt(kTable.cell(row, "spelling"), spelling)) continue;
    found.push_back(kTable.cell(row, "dialect"));
  }
  return found;
}

std::optional<std::string> default_cell(const std::vector<std::string>& of, std::string_view column,
                                        const CellOf& cell) {
  for (const std::string& each : of) {
    if (auto value = default_of(each, column, cell)) return value;
  }
  return default_of("any", column, cell);
}

const RowBlock* block_with(std::string_view act) {
  const auto found = std::find_if(blocks().begin(), blocks().end(), [&](const RowBlock& block) {
    return same_letters(block.act, act);
  });
  return found == blocks().end() ? nullptr : &*found;
}

std::optional<UsualDropout> usual_dropout(const std::string& family) {
  static const Csv kTable(row_data("row_dropouts.csv"), "row_dropouts.csv");
  for (std::size_t row = 0; row < kTable.rows(); ++row) {
    if (kTable.cell(row, "family") != family) continue;
    return UsualDropout{kTable.cell(row, "hidden"), kTable.cell(row, "attention")};
  }
  return std::nullopt;
}

std::optional<std::string> unsaid_column(const std::string& target, const std::string& rule) {
  static const Csv kTable(row_data("row_unsaid.csv"), "row_unsaid.csv");
  for (std::size_t row = 0; row < kTable.rows(); ++row) {
    const bool is_meant = kTable.cell(row, "target") == target && kTable.cell(row, "rule") == rule;
    if (is_meant) return kTable.cell(row, "column");
  }
  return std::nullopt;
}

std::vector<std::string> row_activations() {
  std::vector<std::string> names;
  for (const RowBlock& block : blocks()) names.push_back(block.act);
  return names;
}

}  // namespace planwright::cli
