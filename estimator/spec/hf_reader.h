#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/json_fields.h"

namespace planwright {

/// Spellings of one key, the usual one first.
using Spellings = std::vector<std::string_view>;

/// Takes the facts of one config.json out of its keys. Null is absent; every message names the file
/// and the key as the file spells it.
class HfReader {
 public:
  HfReader(const Json& config, const std::string& source) : config_(config), place_(source) {}

  /// The value under `key`; null if it is absent or JSON's null.
  const Json* find(std::string_view key) const;
  bool has(std::string_view key) const { return config_.contains(std::string(key)); }

  /// A size: whole, from 1 to 2^40. Two spellings that disagree are refused.
  std::optional<std::int64_t> size_if_given(const Spellings& spellings) const;
  std::int64_t size(const Spellings& spellings) const;
  bool flag(std::string_view key, bool usual) const;
  /// A positive number.
  double number(std::string_view key, double usual) const;
  /// A word, which must be one of `allowed`; `allowed.front()` if it is absent.
  void require_word(std::string_view key, const std::vector<std::string>& allowed) const;

  [[noreturn]] void refuse(std::string_view key, const std::string& rule,
                           const std::string& nearest = "") const;
  [[noreturn]] void refuse_missing(std::string_view key, const std::string& why = "") const;
  json_io::Place at(std::string_view key) const { return place_.at(key); }
  /// The spelling that the file uses, for messages; the usual one if it uses none.
  std::string_view spelled(const Spellings& spellings) const;

 private:
  const Json& config_;
  json_io::Place place_;
};

}  // namespace planwright
