#pragma once

#include <array>
#include <cstdint>
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

  /// Calls `found(number)` for every occurrence of a text.
  template <class Found>
  void search(std::string_view line, const Found& found) const {
    for (const std::size_t number : short_) {
      if (line.find(texts_[number].text) != line.npos) found(number);
    }
    if (line.size() < kGram) return;
    const std::size_t end = line.size() - kGram;
    for (std::size_t at = 0; at <= end; ++at) {
      const std::uint16_t head = heads_[slot(line.data() + at)];
      if (head != 0) compare(line, at, head, found);
    }
  }

 private:
  static constexpr std::size_t kGram = 4;
  struct Text {
    std::string text;
    std::size_t gram_at = 0;  ///< where its four bytes stand in it
    std::uint16_t next = 0;   ///< of the same slot, counted from 1; 0: none
  };

  static std::size_t slot(const char* bytes) {
    std::uint32_t gram = 0;
    __builtin_memcpy(&gram, bytes, kGram);
    return (gram * 2654435761U) >> 20;
  }
  template <class Found>
  void compare(std::string_view line, std::size_t at, std::uint16_t head,
               const Found& found) const {
    for (; head != 0; head = texts_[head - 1U].next) {
      const Text& each = texts_[head - 1U];
      const bool fits = at >= each.gram_at;
      if (fits && line.substr(at - each.gram_at, each.text.size()) == each.text) found(head - 1U);
    }
  }

  std::vector<Text> texts_;
  std::vector<std::size_t> short_;  ///< those of less than four bytes
  std::array<std::uint16_t, 1U << 12> heads_{};
};

}  // namespace planwright::launcher
