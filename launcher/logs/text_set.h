#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace planwright::launcher {

/// Which of many short texts occur in a line, in about one step per byte however many they are:
/// four bytes of each text are looked up in a table, and only where they stand is the text
/// compared.
class TextSet {
 public:
  /// The number of the text. Equal texts have one number.
  std::size_t add(const std::string& text);
  std::size_t size() const { return texts_.size(); }

  /// Calls `found(number, at)` for every occurrence of a text, but only for the first of one of
  /// less than four bytes. Those of one text come in their order.
  template <class Found>
  void search(std::string_view line, const Found& found) const {
    for (const std::size_t number : short_) {
      const std::size_t at = line.find(texts_[number].text);
      if (at != line.npos) found(number, at);
    }
    if (line.size() < kGram) return;
    const std::size_t end = line.size() - kGram;
    for (std::size_t at = 0; at <= end; ++at) {
      const std::uint32_t gram = gram_of(line.data() + at);
      const std::uint16_t head = heads_[slot(gram)];
      if (head != 0) compare(line, at, gram, head, found);
    }
  }

 private:
  static constexpr std::size_t kGram = 4;
  struct Text {
    std::string text;
    std::uint32_t gram = 0;   ///< its four bytes
    std::size_t gram_at = 0;  ///< where they stand in it
    std::uint16_t next = 0;   ///< of the same slot, counted from 1; 0: none
  };

  static std::uint32_t gram_of(const char* bytes) {
    std::uint32_t gram = 0;
    std::memcpy(&gram, bytes, kGram);
    return gram;
  }
  static std::size_t slot(std::uint32_t gram) { return (gram * 2654435761U) >> 19; }
  template <class Found>
  void compare(std::string_view line, std::size_t at, std::uint32_t gram, std::uint16_t head,
               const Found& found) const {
    for (; head != 0; head = texts_[head - 1U].next) {
      const Text& each = texts_[head - 1U];
      if (each.gram != gram || at < each.gram_at) continue;
      const std::size_t begin = at - each.gram_at;
      if (line.substr(begin, each.text.size()) == each.text) found(head - 1U, begin);
    }
  }

  std::vector<Text> texts_;
  std::vector<std::size_t> short_;  ///< those of less than four bytes
  std::array<std::uint16_t, 1U << 13> heads_{};
};

}  // namespace planwright::launcher
