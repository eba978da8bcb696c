#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>

namespace planwright::launcher {

/// Cuts a stream of bytes into lines, each ended by \n or \r, as progress bars write it. Hands out
/// views into the bytes and copies only what a chunk leaves unfinished. Empty lines are left out.
class LineCutter {
 public:
  /// Of a longer line the beginning is kept.
  explicit LineCutter(std::size_t limit) : limit_(limit) {}

  /// `take(std::string_view line, bool cut)`: `cut` says that the line is only a beginning.
  template <class Take>
  void append(std::string_view bytes, const Take& take) {
    while (!bytes.empty()) {
      const std::size_t end = line_end(bytes);
      const bool whole = end < bytes.size();
      if (!whole || !pending_.empty()) {
        keep(bytes.substr(0, end));
        if (whole) finish(take, false);
      } else {
        hand_out(bytes.substr(0, end), false, take);
      }
      bytes.remove_prefix(std::min(end + 1, bytes.size()));
    }
  }
  /// What no line end followed.
  template <class Take>
  void finish(const Take& take) {
    finish(take, true);
  }

 private:
  static std::size_t line_end(std::string_view bytes) {
    const std::size_t newline = std::min(bytes.find('\n'), bytes.size());
    const void* const found = std::memchr(bytes.data(), '\r', newline);
    return found != nullptr
               ? static_cast<std::size_t>(static_cast<const char*>(found) - bytes.data())
               : newline;
  }
  void keep(std::string_view bytes) {
    pending_ += bytes.substr(0, limit_ + 1 - std::min(limit_ + 1, pending_.size()));
  }
  template <class Take>
  void finish(const Take& take, bool cut) {
    hand_out(pending_, cut, take);
    pending_.clear();
  }
  template <class Take>
  void hand_out(std::string_view line, bool cut, const Take& take) {
    if (line.empty()) return;
    take(line.substr(0, limit_), cut || line.size() > limit_);
  }

  std::size_t limit_;
  std::string pending_;
};

}  // namespace planwright::launcher
