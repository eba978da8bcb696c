#include "launcher/logs/text_set.h"

#include <algorithm>

namespace planwright::launcher {
namespace {

/// What stands in the lines of many logs, looked for or not.
constexpr std::string_view kCommonWords =
    " step: step= Step loss: loss= memory: Memory iteration time: tokens/s samples/sec s/it it/s "
    "INFO WARNING torch python rank epoch allocated ";

/// The higher, the more often a byte stands in logs.
int commonness(char c) {
  if (c == '0' || c == '.') return 8;
  if (std::string_view("etaoinsr").find(c) != std::string_view::npos) return 4;
  if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return 3;
  return c == ' ' || c == '-' || c == '=' || c == ':' ? 3 : 1;
}

int commonness_of_gram(std::string_view gram) {
  constexpr int kOfCommonWord = 16;
  int sum = kCommonWords.find(gram) != kCommonWords.npos ? kOfCommonWord : 0;
  for (const char c : gram) sum += commonness(c);
  return sum;
}

/// Where the four bytes begin that stand most rarely in logs.
std::size_t rarest_gram(std::string_view text) {
  const auto cost = [&](std::size_t at) { return commonness_of_gram(text.substr(at, kGramBytes)); };
  std::size_t best = 0;
  for (std::size_t at = 1; at + kGramBytes <= text.size(); ++at) {
    if (cost(at) < cost(best)) best = at;
  }
  return best;
}

}  // namespace

int commonness(std::string_view text) {
  constexpr int kOfNoGram = 1000;
  if (text.size() < kGramBytes) return kOfNoGram - static_cast<int>(text.size());
  const auto more = static_cast<int>(text.size() - kGramBytes);
  return commonness_of_gram(text.substr(rarest_gram(text), kGramBytes)) - 2 * more;
}

std::size_t TextSet::add(const std::string& text) {
  const auto known = std::find_if(texts_.begin(), texts_.end(),
                                  [&](const Text& each) { return each.text == text; });
  if (known != texts_.end()) return static_cast<std::size_t>(known - texts_.begin());
  Text added{text};
  const std::size_t number = texts_.size();
  if (text.size() < kGramBytes) {
    short_.push_back(number);
  } else {
    added.gram_at = rarest_gram(text);
    added.gram = gram_of(text.data() + added.gram_at);
    std::uint16_t& head = heads_[slot(added.gram)];
    present_[slot(added.gram)] = 1;
    added.next = head;
    head = static_cast<std::uint16_t>(number + 1);
  }
  texts_.push_back(std::move(added));
  return number;
}

}  // namespace planwright::launcher
