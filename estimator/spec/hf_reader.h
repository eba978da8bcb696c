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

  /// The object under `key`, which must be there; this reader must outlive it.
  HfReader inner(std::string_view key) const;
  /// An object's keys must be of these.
  void require_keys(const std::vector<std::string_view>& known, const std::string& of) const;

  /// The value under `key`; null if it is absent or JSON's null.
  const Json* find(std::string_view key) const;
  bool has(std::string_view key) const { return config_.contains(std::string(key)); }

  /// A size: whole, from 1 to 2^40. Two spellings that disagree are refused.
  std::optional<std::int64_t> size_if_given(const Spellings& spellings) const;
  std::int64_t size(const Spellings& spellings) const;
  std::int64_t size_or(const Spellings& spellings, std::int64_t usual) const;
  /// The same from 0 on.
  std::int64_t count_or(std::string_view key, std::int64_t usual) const;
  bool flag(std::string_view key, bool usual) const;
  /// A positive number.
  double number(std::string_view key, double usual) const;
  /// A word, which must be one of `allowed`; nothing if it is absent.
  void require_word(std::string_view key, const std::vector<std::string>& allowed) const;
  /// The text under `key`, or `usual`.
  std::string text(std::string_view key, const std::string& usual) const;
  /// A list with one entry for each of `layers`; nullopt if it is absent.
  template <class T>
  std::optional<std::vector<T>> each_layer(std::string_view key, std::int64_t layers) const {
    const Json* json = find(key);
    if (json == nullptr) return std::nullopt;
    std::vector<T> list;
    decode(*json, at(key), list);
    require_each(key, list.size(), layers);
    return list;
  }

  const Json& json() const { return config_; }
  [[noreturn]] void refuse(std::string_view key, const std::string& rule,
                           const std::string& nearest = "") const;
  [[noreturn]] void refuse_missing(std::string_view key, const std::string& why = "") const;
  json_io::Place at(std::string_view key) const { return place_.at(key); }
  /// The spelling that the file uses, for messages; the usual one if it uses none.
  std::string_view spelled(const Spellings& spellings) const;

 private:
  HfReader(const Json& config, const json_io::Place& place) : config_(config), place_(place) {}
  void require_each(std::string_view key, std::size_t entries, std::int64_t layers) const;

  const Json& config_;
  json_io::Place place_;
};

}  // namespace planwright
