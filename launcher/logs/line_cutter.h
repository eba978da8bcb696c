#pragma once

#include <algorithm>
#include <cstddef>
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
    if (in_gap_) bytes.remove_prefix(rest_of_line(bytes));
    NextOf newline(bytes, '\n'), carriage_return(bytes, '\r');
    std::size_t at = 0;
    while (at < bytes.size()) {
      const std::size_t end = std::min(newline.from(at), carriage_return.from(at));
      const std::string_view line = bytes.substr(at, end - at);
      const bool whole = end < bytes.size();
      if (whole && pending_.empty()) {
        hand_out(line, false, take);
      } else {
        keep(line);
        if (whole) finish(take, false);
      }
      at = end + 1;
    }
  }
  /// Bytes are missing here: what no line end followed was cut, and what comes up to the next one
  /// is no line's beginning.
  template <class Take>
  void gap(const Take& take) {
    finish(take, true);
    in_gap_ = true;
  }
  /// What no line end followed.
  template <class Take>
  void finish(const Take& take) {
    finish(take, true);
  }

 private:
  /// How many bytes end the line that began in the gap.
  std::size_t rest_of_line(std::string_view bytes) {
    const std::size_t end = bytes.find_first_of("\r\n");
    in_gap_ = end == bytes.npos;
    return std::min(end, bytes.size());
  }

  /// Where a byte stands next, asked for from places in their order; the end if nowhere. Looked for
  /// once, or a log of carriage returns alone would be searched for newlines at each of them.
  class NextOf {
   public:
    NextOf(std::string_view bytes, char byte) : bytes_(bytes), byte_(byte) { look_from(0); }
    std::size_t from(std::size_t at) {
      if (next_ < at) look_from(at);
      return next_;
    }

   private:
    void look_from(std::size_t at) { next_ = std::min(bytes_.find(byte_, at), bytes_.size()); }

    std::string_view bytes_;
    char byte_;
    std::size_t next_ = 0;
  };

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
  bool in_gap_ = false;
};

}  // namespace planwright::launcher
