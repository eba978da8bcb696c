#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/error.h"

namespace planwright {

/// The spelling of each value of an enum, the same in code, command line, JSON and docs. An enum
/// takes part by specialising this with `static constexpr std::array kWords{...}`, in the order
/// of its values, which count from 0.
template <class Enum>
struct Words;

template <class Enum>
constexpr std::size_t kWordCount = Words<Enum>::kWords.size();

template <class Enum>
constexpr std::string_view word(Enum value) {
  return Words<Enum>::kWords[static_cast<std::size_t>(value)];
}

template <class Enum>
constexpr std::optional<Enum> from_word(std::string_view text) {
  for (std::size_t i = 0; i < kWordCount<Enum>; ++i) {
    if (Words<Enum>::kWords[i] == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

template <class Enum>
std::vector<std::string> all_words() {
  return {Words<Enum>::kWords.begin(), Words<Enum>::kWords.end()};
}

/// The valid spelling with the smallest edit distance to `text`; empty if none is near: within a
/// third of the longer one's length (one edit always is), or with `text` as its beginning.
std::string nearest_word(std::string_view text, const std::vector<std::string>& valid);

/// The same between `before` and `after`; empty if there is none.
std::string nearest_word(std::string_view text, const std::vector<std::string>& valid,
                         std::string_view before, std::string_view after = "");

/// The same letters, capitals apart.
bool same_letters(std::string_view a, std::string_view b);

/// `a, b or c`, for messages that list what is allowed.
std::string join_words(const std::vector<std::string>& words);

/// `from_word`, or an InputError that names `file`, `key`, the value and the nearest spelling.
template <class Enum>
Enum parse_word(std::string_view text, const std::string& file, const std::string& key) {
  if (const auto value = from_word<Enum>(text)) return *value;
  const auto valid = all_words<Enum>();
  throw InputError({file, key, std::string(text), "must be one of " + join_words(valid),
                    nearest_word(text, valid)});
}

}  // namespace planwright
