#include "estimator/spec/hf_reader.h"

#include <algorithm>

#include "estimator/spec/error.h"
#include "estimator/spec/soundness.h"

namespace planwright {
namespace {

constexpr json_io::Range kSize{.min = 1, .max = kMostSize};
constexpr json_io::Range kCount{.min = 0, .max = kSize.max};

}  // namespace

const Json* HfReader::find(std::string_view key) const {
  const auto found = config_.find(std::string(key));
  return found == config_.end() || found->is_null() ? nullptr : &*found;
}

HfReader HfReader::inner(std::string_view key) const {
  const Json* json = find(key);
  if (json == nullptr) refuse_missing(key);
  if (!json->is_object()) refuse(key, "must be an object");
  return HfReader(*json, at(key));
}

void HfReader::require_keys(const std::vector<std::string_view>& known,
                            const std::string& of) const {
  const std::vector<std::string> words(known.begin(), known.end());
  for (const auto& item : config_.items()) {
    if (std::find(known.begin(), known.end(), item.key()) != known.end()) continue;
    refuse(item.key(), "is not a key of " + of + "; it may change their size",
           nearest_word(item.key(), words));
  }
}

std::string_view HfReader::spelled(const Spellings& spellings) const {
  const auto used = std::find_if(spellings.begin(), spellings.end(),
                                 [&](std::string_view key) { return find(key) != nullptr; });
  return used == spellings.end() ? spellings.front() : *used;
}

std::optional<std::int64_t> HfReader::size_if_given(const Spellings& spellings) const {
  const std::string_view first = spelled(spellings);
  std::optional<std::int64_t> size;
  for (const std::string_view key : spellings) {
    const Json* json = find(key);
    if (json == nullptr) continue;
    std::int64_t value = 0;
    decode(*json, at(key), value);
    require_range(value, kSize, *json, at(key));
    if (size && value != *size) {
      refuse(key, "contradicts " + std::string(first) + " = " + std::to_string(*size),
             std::to_string(*size));
    }
    size = value;
  }
  return size;
}

std::int64_t HfReader::size(const Spellings& spellings) const {
  if (const auto given = size_if_given(spellings)) return *given;
  refuse_missing(spellings.front());
}

std::int64_t HfReader::size_or(const Spellings& spellings, std::int64_t usual) const {
  return size_if_given(spellings).value_or(usual);
}

std::int64_t HfReader::count_or(std::string_view key, std::int64_t usual) const {
  const Json* json = find(key);
  if (json == nullptr) return usual;
  std::int64_t value = 0;
  decode(*json, at(key), value);
  require_range(value, kCount, *json, at(key));
  return value;
}

bool HfReader::flag(std::string_view key, bool usual) const {
  if (const Json* json = find(key)) decode(*json, at(key), usual);
  return usual;
}

double HfReader::number(std::string_view key, double usual) const {
  const Json* json = find(key);
  if (json == nullptr) return usual;
  double value = 0;
  decode(*json, at(key), value);
  if (!(value > 0)) refuse(key, "must be above 0");
  return value;
}

void HfReader::require_word(std::string_view key, const std::vector<std::string>& allowed) const {
  const Json* json = find(key);
  if (json == nullptr) return;
  std::string text;
  decode(*json, at(key), text);
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return;
  refuse(key, "must be " + join_words(allowed) + ", the only ones that can be planned for here",
         nearest_word(text, allowed));
}

std::string HfReader::text(std::string_view key, const std::string& usual) const {
  std::string text = usual;
  if (const Json* json = find(key)) decode(*json, at(key), text);
  return text;
}

void HfReader::require_each(std::string_view key, std::size_t entries, std::int64_t layers) const {
  if (static_cast<std::int64_t>(entries) == layers) return;
  refuse(key, "must have one entry for each of the " + std::to_string(layers) + " layers, not " +
                  std::to_string(entries));
}

void HfReader::refuse(std::string_view key, const std::string& rule,
                      const std::string& nearest) const {
  const Json* json = find(key);
  json_io::refuse(at(key), json != nullptr ? *json : Json(), rule, nearest);
}

void HfReader::refuse_missing(std::string_view key, const std::string& why) const {
  throw InputError({place_.source(), at(key).path(), "", "is missing" + why, ""});
}

}  // namespace planwright
