#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/words.h"

/// What the cells of measured rows mean in the vocabulary of the command line: the tables of
/// cli/data.
namespace planwright::cli {

/// The word for a spelling of the column in row_aliases.csv, capitals apart; a spelling that the
/// table does not have is its own word.
std::string meaning(std::string_view column, const std::string& spelling);
/// The same, but nothing for such a spelling.
std::optional<std::string> known_meaning(std::string_view column, const std::string& spelling);

/// What a target does where a row does not say otherwise, by row_defaults.csv; nothing if the
/// answer cannot be known without the cell.
std::optional<std::string> default_cell(std::string_view target, std::string_view column);

/// Of which stage's ranks a target's log says the peak, by row_defaults.csv.
enum class PeakOf { fullest, first, last };
PeakOf peak_of(std::string_view target);

/// The block that usually has an activation, by row_blocks.csv.
struct RowBlock {
  std::string act;     ///< as rows call it
  std::string like;    ///< a model that is known for it
  std::string family;  ///< model_type of its config.json
  std::string mlp, activation, norm, positions;
  bool biases = false;
};
/// Null if the rows' word for the activation is unknown.
const RowBlock* block_with(std::string_view act);
/// The words that are known.
std::vector<std::string> row_activations();

}  // namespace planwright::cli

namespace planwright {
template <>
struct Words<cli::PeakOf> {
  static constexpr std::array<std::string_view, 3> kWords{"fullest", "first", "last"};
};
}  // namespace planwright
