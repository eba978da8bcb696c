#pragma once

#include <string>
#include <vector>

namespace planwright::testing {

/// A table for people and for issue threads alike: padded to equal widths, numbers to the right.
class MarkdownTable {
 public:
  explicit MarkdownTable(std::vector<std::string> heads);
  /// As many cells as there are heads.
  void add(std::vector<std::string> cells);
  std::string text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  ///< the heads first
};

}  // namespace planwright::testing
