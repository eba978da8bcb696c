#pragma once

#include <string>

namespace planwright::cli {

/// One thing that `doctor` looked at. `fix` is what to do about it; empty if there is nothing to
/// do.
struct Check {
  std::string name;
  bool ok = false;
  std::string detail;
  std::string fix;
  bool needed = true;  ///< for the exit code to be 0
};

}  // namespace planwright::cli
