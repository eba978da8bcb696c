#include "launcher/line_splitter.h"

#include <algorithm>

namespace planwright::launcher {

void LineSplitter::append(std::string_view bytes) {
  pending_.erase(0, taken_);
  taken_ = 0;
  pending_ += bytes;
}

std::optional<std::string> LineSplitter::next() {
  while (true) {
    const std::size_t end = pending_.find('\n', taken_);
    const bool whole = end != std::string::npos;
    const std::size_t length = (whole ? end : pending_.size()) - taken_;
    if (!whole && length <= line_limit_ && !skipping_) return std::nullopt;

    std::string line = pending_.substr(taken_, std::min(length, line_limit_));
    const bool rest_of_a_long_one = skipping_;
    skipping_ = !whole;
    taken_ = whole ? end + 1 : pending_.size();
    if (!rest_of_a_long_one) return line;
    if (!whole) return std::nullopt;
  }
}

}  // namespace planwright::launcher
