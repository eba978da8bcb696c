#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace planwright::launcher {

/// One command line for a POSIX shell; words that need it in quotes.
std::string shell_line(const std::vector<std::string>& argv,
                       const std::map<std::string, std::string>& environment = {});

/// The words that a POSIX shell makes of `text`, whose quotes and backslashes mean what they mean
/// there; nothing is expanded, so that `$` and `*` stand for themselves. nullopt if a quote is not
/// closed, or a backslash has nothing behind it.
std::optional<std::vector<std::string>> shell_words(std::string_view text);

/// How a script finds its paths wherever it is called from.
struct ScriptPaths {
  /// The folder in which the command is run, absolute or relative to the script's own; empty: the
  /// one in which the script is called.
  std::string start{};
  /// Files of the script's own folder, as the command spells them: a whole word, or what follows
  /// the first `=` of one.
  std::vector<std::string> beside{};
  /// Name of a file that is always there beside the script: schedulers run a copy of it elsewhere,
  /// which then says so.
  std::string neighbour{};
};

/// A script that replaces itself by the command, under these comments.
std::string shell_script(const std::vector<std::string>& comments,
                         const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment,
                         const ScriptPaths& paths = {});

}  // namespace planwright::launcher
