#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "launcher/unique_fd.h"

namespace planwright::supervisor {

/// A rank's output, however much it prints: the end in memory, and a file of bounded size that
/// holds the beginning and the end. A file that cannot be written loses nothing but itself.
class LogSink {
 public:
  explicit LogSink(const std::string& path);

  void append(std::string_view bytes);
  /// The last launcher::kLogTail bytes.
  std::string_view tail() const;
  /// Adds to the file what it does not have yet of the end. Call once.
  void finish();

 private:
  void write_out(std::string_view bytes);

  launcher::UniqueFd file_;
  std::size_t total_ = 0;
  std::string recent_;  ///< up to twice the tail, so that it is cut rarely
};

}  // namespace planwright::supervisor
