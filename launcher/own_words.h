#pragma once

#include <string>
#include <string_view>

/// Launchers report at length that a rank has failed, behind the line in which the script said why.
namespace planwright::launcher {

/// What stands before a launcher's report of a failed rank; all of `log` if there is none.
std::string_view before_report(std::string_view log);

/// The script's own last line of a log: what it refused its arguments with, else the last before a
/// launcher's report that is no notice. Empty if it said nothing.
std::string own_words(std::string_view log);

/// Whether only a launcher's report has this line.
bool is_of_report(std::string_view line, std::string_view log);

}  // namespace planwright::launcher
