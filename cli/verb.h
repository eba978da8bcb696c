#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/keys.h"

namespace planwright::cli {

using Arguments = std::vector<std::string>;

/// What a verb takes on its command line.
struct Verb {
  std::string_view name;
  std::string_view summary;             ///< one clause
  std::string_view arguments;           ///< its positional arguments, as the help text shows them
  std::string_view example;             ///< a command that works
  std::vector<Table> tables{};          ///< whose keys are its flags
  Table axes = Table::candidate;        ///< what an axis given as a flag is: one value, or a list
  std::vector<std::string_view> own{};  ///< other keys that are its flags
  std::size_t most_words = 0;           ///< positional arguments
  bool takes_file = false;              ///< the first of them is a TOML file
  bool takes_command = false;           ///< the user's own stands behind `--`
};

}  // namespace planwright::cli
