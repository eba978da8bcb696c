#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/settings.h"
#include "cli/verb.h"
#include "estimator/spec/words.h"

namespace planwright::cli {

enum class ColorChoice { automatic, always, never };

/// Flags that every verb has.
struct CommonFlags {
  bool json = false;
  bool quiet = false;
  bool verbose = false;
  ColorChoice color = ColorChoice::automatic;
  std::uint64_t seed = 0;
};

/// A verb's command line, read and merged with the TOML file that it names.
struct CommandLine {
  bool help = false;
  CommonFlags common;
  Settings settings;               ///< flags over file
  std::vector<std::string> words;  ///< positional arguments, the TOML file left out
};

/// An InputError for a flag that the verb does not have, one given twice or without its value, and
/// whatever is wrong in the file.
CommandLine read_command_line(const Verb& verb, const Arguments& arguments);

std::string help_text(const Verb& verb);

/// Writes it to stdout; returns the exit code 0.
int print_help(const Verb& verb);

}  // namespace planwright::cli

template <>
struct planwright::Words<planwright::cli::ColorChoice> {
  static constexpr std::array<std::string_view, 3> kWords{"auto", "always", "never"};
};
