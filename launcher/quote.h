#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Text of any origin inside files that have a syntax. JSON has its own writer, a shell
/// launcher/shell.h.
namespace planwright::launcher {

/// In double quotes, as YAML, TOML and Python read it back unchanged: backslashes, quotes, control
/// characters, line separators and marks that turn the direction of writing are escaped. An
/// InputError if the text is not UTF-8, which none of the three can hold.
std::string in_quotes(std::string_view text);

/// The same without the quotes: what stays on one line of a comment.
std::string on_one_line(std::string_view text);

/// Each text as a line that begins with `#`.
std::string comment_lines(const std::vector<std::string>& texts);

}  // namespace planwright::launcher
