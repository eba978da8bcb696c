#include "cli/row_words.h"

#include <algorithm>
#include <stdexcept>

#include "cli/embedded.h"
#include "estimator/csv.h"

namespace planwright::cli {
namespace {

using estimator::Csv;

std::string_view data_text(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files()) {
    if (file.path == path) return file.text;
  }
  throw std::logic_error("no embedded file " + std::string(path));
}

const Csv& alias_table() {
  static const Csv kTable(data_text("row_aliases.csv"), "row_aliases.csv");
  return kTable;
}

const Csv& default_table() {
  static const Csv kTable(data_text("row_defaults.csv"), "row_defaults.csv");
  return kTable;
}

const std::vector<RowBlock>& blocks() {
  static const std::vector<RowBlock> kBlocks = [] {
    const Csv table(data_text("row_blocks.csv"), "row_blocks.csv");
    std::vector<RowBlock> made;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      made.push_back({.act = table.cell(row, "act"),
                      .like = table.cell(row, "like"),
                      .family = table.cell(row, "family"),
                      .mlp = table.cell(row, "mlp"),
                      .activation = table.cell(row, "activation"),
                      .norm = table.cell(row, "norm"),
                      .positions = table.cell(row, "positions"),
                      .biases = table.number(row, "biases", 0) > 0});
    }
    return made;
  }();
  return kBlocks;
}

/// "layers:*" stands for every spelling that begins as it does, and the star for the rest of it.
std::optional<std::string> meaning_if(const std::string& alias, const std::string& word,
                                      const std::string& spelling) {
  if (!alias.ends_with('*')) {
    return same_letters(alias, spelling) ? std::optional(word) : std::nullopt;
  }
  const std::string_view begin(alias.data(), alias.size() - 1);
  if (!spelling.starts_with(begin)) return std::nullopt;
  return word.substr(0, word.size() - 1) + spelling.substr(begin.size());
}

}  // namespace

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

std::optional<std::string> default_cell(std::string_view target, std::string_view column) {
  const Csv& table = default_table();
  std::optional<std::string> of_any;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (table.cell(row, "column") != column) continue;
    if (table.cell(row, "target") == target) return table.cell(row, "value");
    if (table.cell(row, "target") == "any") of_any = table.cell(row, "value");
  }
  return of_any;
}

PeakOf peak_of(std::string_view target) {
  return from_word<PeakOf>(default_cell(target, "peak_of").value()).value();
}

const RowBlock* block_with(std::string_view act) {
  const auto found = std::find_if(blocks().begin(), blocks().end(), [&](const RowBlock& block) {
    return same_letters(block.act, act);
  });
  return found == blocks().end() ? nullptr : &*found;
}

std::vector<std::string> row_activations() {
  std::vector<std::string> names;
  for (const RowBlock& block : blocks()) names.push_back(block.act);
  return names;
}

}  // namespace planwright::cli
