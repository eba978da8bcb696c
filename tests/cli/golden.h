#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "launcher/files.h"
#include "tests/support/fault.h"

namespace planwright::testing {

/// Compares `text` with tests/cli/golden/NAME.txt. With PLANWRIGHT_REGENERATE set the file is
/// written instead: read the difference before committing it.
inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path =
      std::string(PLANWRIGHT_SOURCE_DIR) + "/tests/cli/golden/" + name + ".txt";
  if (std::getenv("PLANWRIGHT_REGENERATE") != nullptr) {
    launcher::write_file(path, text);
    return;
  }
  EXPECT_EQ(text, file_text(path)) << "PLANWRIGHT_REGENERATE=1 writes " << path;
}

}  // namespace planwright::testing
