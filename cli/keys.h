#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Every name that a person can set, once: the flags of the command line and the keys of a TOML
/// file are both made from this table, so that they cannot drift apart.
namespace planwright::cli {

/// The tables of a TOML file. `none`: flags only.
enum class Table { model, cluster, job, candidate, space, budget, launch, storage, none };
constexpr std::string_view kTableNames[] = {"model", "cluster", "job",    "candidate",
                                            "space", "budget",  "launch", "storage"};

/// Which values a key takes in a TOML file; on the command line all are text.
enum class Shape {
  text,
  path,          ///< in a TOML file: relative to that file
  path_or_name,  ///< the same, if there is such a path
  integer,
  number,  ///< with or without decimals
  toggle,  ///< true and false, or on and off
  pairs,   ///< a table of strings; NAME=VALUE,… as a flag
  mark,    ///< a flag without a value; true or false in TOML
  // In a file only; the text is that of the TOML value.
  words,  ///< a list of texts
  table,  ///< a table of its own
};

/// Whether it is in files only.
constexpr bool is_in_files_only(Shape shape) {
  return shape == Shape::words || shape == Shape::table;
}

struct Key {
  std::string_view name;  ///< as a flag, without its dashes; `_` for `-` in a TOML file
  Table table;
  Shape shape;
  std::string_view argument;  ///< "N" in the help text
  std::string_view help;
};

/// The axes stand in it once, under Table::candidate, and are keys of [space] too.
const std::vector<Key>& all_keys();

/// Null if there is none.
const Key* find_key(std::string_view name);

/// Whether `key` may stand in `table`; in [space] its value may be a list.
bool belongs(const Key& key, Table table);

/// "global-batch" → "global_batch", and back.
std::string toml_spelling(std::string_view flag);
std::string flag_spelling(std::string_view toml_key);

}  // namespace planwright::cli
