#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace planwright::launcher {

/// Cuts a stream of bytes into lines. Of a line longer than the limit the beginning is kept.
class LineSplitter {
 public:
  explicit LineSplitter(std::size_t line_limit) : line_limit_(line_limit) {}

  void append(std::string_view bytes);
  /// The next whole line without its end; nullopt when more bytes are needed.
  std::optional<std::string> next();

 private:
  std::size_t line_limit_;
  std::string pending_;
  std::size_t taken_ = 0;  ///< bytes of `pending_` that were handed out
  bool skipping_ = false;  ///< inside the rest of a line whose beginning was handed out
};

}  // namespace planwright::launcher
