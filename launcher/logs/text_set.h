#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace planwright::launcher {

/// The higher, the more lines of logs the text is likely to stand in, by its rarest four bytes and
/// its length.
int commonness(std::string_view text);

/// So many bytes of each text are looked for at every place of a line.
constexpr std::size_t kGramBytes = 4;

/// Which of many short texts occur in a line, in about one step per byte however many they are:
/// four bytes of each text are looked up in a table, and only where they stand is the text
/// compared.
class TextSet {
 public:
  /// The number of the text. Equal texts have one number.
  std::size_t add(const std::string& text);
  std::size_t size() const { return texts_.size(); }

  /// Calls `found(number, at)` for every occurrence of a text. Those of one text come in their
  /// order.
  template <class Found>
  void search(std::string_view line, const Found& found) const {
    for (const std::size_t number : short_) {
      const std::string_view text = texts_[number].text;
      std::size_t at = line.find(text);
      for (; at != line.npos; at = line.find(text, at + 1)) found(number, at);
    }
    const auto may_be = [this](const char* place) { return present_[slot(gram_of(place))]; };
    const char* place = line.data();
    std::size_t left = line.size();
    for (; left >= kAtOnce + kGramBytes - 1; left -= kAtOnce, place += kAtOnce) {
      if ((may_be(place) | may_be(place + 1) | may_be(place + 2) | may_be(place + 3)) == 0)
        continue;
      for (std::size_t i = 0; i < kAtOnce; ++i) compare(line, place + i, found);
    }
    for (; left >= kGramBytes; --left, ++place) compare(line, place, found);
  }

 private:
  static constexpr std::size_t kAtOnce = 4;  ///< one branch for so many places
  static constexpr int kSlotBits = 14;       ///< a byte for each fits the nearest cache
  struct Text {
    std::string text;
    std::uint32_t gram = 0;   ///< its four bytes
    std::size_t gram_at = 0;  ///< where they stand in it
    std::uint16_t next = 0;   ///< of the same slot, counted from 1; 0: none
  };

  static std::uint32_t gram_of(const char* bytes) {
    std::uint32_t gram = 0;
    std::memcpy(&gram, bytes, kGramBytes);
    return gram;
  }
  static std::size_t slot(std::uint32_t gram) { return (gram * 2654435761U) >> (32 - kSlotBits); }
  template <class Found>
  void compare(std::string_view line, const char* place, const Found& found) const {
    const std::uint32_t gram = gram_of(place);
    const auto at = static_cast<std::size_t>(place - line.data());
    for (std::uint16_t head = heads_[slot(gram)]; head != 0; head = texts_[head - 1U].next) {
      const Text& each = texts_[head - 1U];
      if (each.gram != gram || at < each.gram_at) continue;
      const std::size_t begin = at - each.gram_at;
      if (line.substr(begin, each.text.size()) == each.text) found(head - 1U, begin);
    }
  }

  std::vector<Text> texts_;
  std::vector<std::size_t> short_;                       ///< those of less than four bytes
  std::array<std::uint8_t, 1U << kSlotBits> present_{};  ///< 1 where there is a head
  std::array<std::uint16_t, 1U << kSlotBits> heads_{};
};

}  // namespace planwright::launcher
