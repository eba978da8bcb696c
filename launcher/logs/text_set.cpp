#include "launcher/logs/text_set.h"

#include <algorithm>

namespace planwright::launcher {
namespace {

/// The higher, the more often a byte stands in logs.
int commonness(char c) {
  if (c == ' ' || c == '0' || c == '.') return 8;
  if (std::string_view("etaoinsr").find(c) != std::string_view::npos) return 4;
  if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return 3;
  return c == '-' || c == '=' || c == ':' ? 3 : 1;
}

/// Where the four bytes begin that make the text rarest.
std::size_t rarest(const std::string& text, std::size_t count) {
  std::size_t best = 0;
  int least = 1 << 20;
  for (std::size_t at = 0; at + count <= text.size(); ++at) {
    int sum = 0;
    for (std::size_t i = at; i < at + count; ++i) sum += commonness(text[i]);
    if (sum < least) {
      least = sum;
      best = at;
    }
  }
  return best;
}

}  // namespace

std::size_t TextSet::add(const std::string& text) {
  const auto known = std::find_if(texts_.begin(), texts_.end(),
                                  [&](const Text& each) { return each.text == text; });
  if (known != texts_.end()) return static_cast<std::size_t>(known - texts_.begin());
  Text added{text};
  const std::size_t number = texts_.size();
  if (text.size() < kGram) {
    short_.push_back(number);
  } else {
    added.gram_at = rarest(text, kGram);
    added.gram = gram_of(text.data() + added.gram_at);
    std::uint16_t& head = heads_[slot(added.gram)];
    added.next = head;
    head = static_cast<std::uint16_t>(number + 1);
  }
  texts_.push_back(std::move(added));
  return number;
}

}  // namespace planwright::launcher
