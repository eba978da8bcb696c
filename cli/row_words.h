#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/words.h"

/// What the cells of measured rows mean in the vocabulary of the command line: the tables of
/// cli/data.
namespace planwright::cli {

/// The text of one of those tables.
std::string_view row_data(std::string_view name);

/// The word for a spelling of the column in row_aliases.csv, capitals apart; a spelling that the
/// table does not have is its own word.
std::string meaning(std::string_view column, const std::string& spelling);
/// The same, but nothing for such a spelling.
std::optional<std::string> known_meaning(std::string_view column, const std::string& spelling);

/// The ways of using a framework that the spelling in the column tells of, by row_dialects.csv;
/// the one that knows most first.
std::vector<std::string> dialects_of(std::string_view column, const std::string& spelling);

/// The row's text in a column.
using CellOf = std::function<std::string(std::string_view column)>;

/// What happens where a row does not say otherwise, by row_defaults.csv: of the first of these
/// dialects and targets that says it of rows with such a `cell`, else of any; nothing if the answer
/// cannot be known without the cell.
std::optional<std::string> default_cell(const std::vector<std::string>& of, std::string_view column,
                                        const CellOf& cell);

/// The column that such rows would need, where the target has an argument that makes plans legal
/// which break the rule, and none of theirs is of it; nothing if it has not.
std::optional<std::string> unsaid_column(const std::string& target, const std::string& rule);

/// The block that usually has an activation, by row_blocks.csv.
struct RowBlock {
  std::string act;     ///< as rows call it
  std::string like;    ///< a model that is known for it
  std::string family;  ///< model_type of its config.json
  std::string mlp, activation, norm, positions;
  bool biases = false;
  std::string dropout;  ///< of attention's weights and between blocks
};
/// Null if the rows' word for the activation is unknown.
const RowBlock* block_with(std::string_view act);
/// The words that are known.
std::vector<std::string> row_activations();

/// What models of a family drop in training if nobody says otherwise, by row_dropouts.csv.
struct UsualDropout {
  std::string hidden, attention;  ///< parts of one
};
std::optional<UsualDropout> usual_dropout(const std::string& family);

}  // namespace planwright::cli
