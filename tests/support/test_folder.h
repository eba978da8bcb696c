#pragma once

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "launcher/files.h"

namespace planwright::testing {

/// A folder for one test, with short ways to put files into it.
class TestFolder {
 public:
  TestFolder() : folder_(::testing::TempDir()) {}

  const std::string& path() const { return folder_.path(); }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

  /// Writes `text` to `name`, making the folders above it.
  std::string put(const std::string& name, const std::string& text) const {
    std::string file = *this / name;
    std::filesystem::create_directories(std::filesystem::path(file).parent_path());
    launcher::write_file(file, text);
    return file;
  }
  std::string put_script(const std::string& name, const std::string& body) const {
    std::string file = put(name, "#!/bin/sh\n" + body + "\n");
    chmod(file.c_str(), 0755);
    return file;
  }
  /// How many entries it has, so that a test can say that nothing is left.
  int entries() const {
    int count = 0;
    for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator(path())) ++count;
    return count;
  }

 private:
  launcher::WorkFolder folder_;
};

}  // namespace planwright::testing
