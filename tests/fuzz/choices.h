#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"

/// What the fuzz targets share: libFuzzer's bytes read as choices, and documents changed by them.
namespace planwright::fuzz {

/// Zero after the last byte.
class Choices {
 public:
  Choices(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  bool more() const { return at_ < size_; }
  std::uint8_t byte() { return more() ? data_[at_++] : 0; }
  std::size_t below(std::size_t count) { return count == 0 ? 0 : (byte() | byte() << 8) % count; }
  std::uint64_t word() {
    std::uint64_t bits = 0;
    for (int i = 0; i < 8; ++i) bits = bits << 8 | byte();
    return bits;
  }
  std::string text(std::size_t most) {
    std::string out;
    for (std::size_t left = below(most + 1); left > 0; --left) {
      out += static_cast<char>(byte() & 0x7f);  // always UTF-8, as what parse_json lets through
    }
    return out;
  }

 private:
  const std::uint8_t* data_;
  std::size_t size_;
  std::size_t at_ = 0;
};

/// Every value of a document, itself included.
inline void collect(Json& json, std::vector<Json*>& into) {
  into.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& child : json) collect(child, into);
}

/// Small and large integers, fractions, what is no number, words, nothing, and lists.
inline Json value(Choices& choices) {
  switch (choices.byte() % 9) {
    case 0:
      return choices.byte();
    case 1:
      return -static_cast<int>(choices.byte());
    case 2:
      return static_cast<std::int64_t>(choices.word());
    case 3:
      return std::int64_t{1} << choices.below(63);
    case 4:
      return std::bit_cast<double>(choices.word());
    case 5:
      return choices.text(12);
    case 6:
      return choices.byte() % 2 == 0;
    case 7:
      return Json::array({choices.byte(), choices.byte()});
    default:
      return nullptr;
  }
}

/// The document with up to four of its values replaced, removed or added beside another name.
inline Json changed(Json document, Choices& choices) {
  for (int change = 0; change < 4 && choices.more(); ++change) {
    std::vector<Json*> values;
    collect(document, values);
    Json& chosen = *values[choices.below(values.size())];
    if (chosen.is_object() && choices.byte() % 4 == 0) {
      chosen[choices.text(8)] = value(choices);
    } else if (chosen.is_structured() && !chosen.empty() && choices.byte() % 2 == 0) {
      auto child = chosen.begin();
      std::advance(child, choices.below(chosen.size()));
      chosen.erase(child);
    } else {
      chosen = value(choices);
    }
  }
  return document;
}

/// Runs `work`; what a person got wrong is refused, and nothing else may be thrown.
template <class Work>
void refused_or_fine(const Work& work) {
  try {
    work();
  } catch (const InputError&) {
  }
}

inline void require(bool holds) {
  if (!holds) __builtin_trap();
}

}  // namespace planwright::fuzz
