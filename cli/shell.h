#pragma once

#include <map>
#include <string>
#include <vector>

namespace planwright::cli {

/// One command line for a POSIX shell; words that need it in quotes.
std::string shell_line(const std::vector<std::string>& argv,
                       const std::map<std::string, std::string>& environment = {});

}  // namespace planwright::cli
