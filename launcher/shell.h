#pragma once

#include <map>
#include <string>
#include <vector>

namespace planwright::launcher {

/// One command line for a POSIX shell; words that need it in quotes.
std::string shell_line(const std::vector<std::string>& argv,
                       const std::map<std::string, std::string>& environment = {});

/// A script that replaces itself by the command, under these comments.
std::string shell_script(const std::vector<std::string>& comments,
                         const std::vector<std::string>& argv,
                         const std::map<std::string, std::string>& environment);

}  // namespace planwright::launcher
