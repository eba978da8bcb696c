#include "estimator/spec/json_fields.h"

#include <algorithm>
#include <cmath>

#include "estimator/spec/error.h"

namespace planwright::json_io {
namespace {

constexpr std::size_t kShownLength = 60;

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShownLength) text = text.substr(0, kShownLength) + "...";
  return text;
}

/// "a list", for messages that say what a value is.
std::string kind_of(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return "a string";
  if (value.is_boolean()) return "true or false";
  if (value.is_null()) return "null";
  return value.is_number_float() ? "a fraction" : "a number";
}

[[noreturn]] void refuse_kind(const Place& place, const Json& value, const std::string& wanted) {
  refuse(place, value, "must be " + wanted + ", not " + kind_of(value));
}

}  // namespace

std::string Place::path() const {
  if (parent_ == nullptr) return {};
  const std::string before = parent_->path();
  if (key_.empty()) return before + "[" + std::to_string(index_) + "]";
  return before.empty() ? std::string(key_) : before + "." + std::string(key_);
}

void refuse(const Place& place, const Json& value, const std::string& rule,
            const std::string& nearest) {
  throw InputError({place.source(), place.path(), shown(value), rule, nearest});
}

ObjectReader::ObjectReader(const Json& object, const Place& place)
    : object_(object), place_(place) {
  if (!object.is_object()) refuse_kind(place, object, "an object");
}

const Json* ObjectReader::find(std::string_view key) {
  known_.emplace_back(key);
  const auto found = object_.find(known_.back());
  return found == object_.end() ? nullptr : &*found;
}

const Json& ObjectReader::require(std::string_view key) {
  if (const Json* json = find(key)) return *json;
  throw InputError({place_.source(), at(key).path(), "", "is missing", ""});
}

void ObjectReader::derived(std::string_view key, const Json& expected) {
  const Json* json = find(key);
  if (json != nullptr && *json != expected) {
    refuse(at(key), *json, "contradicts the keys it follows from", shown(expected));
  }
}

void ObjectReader::finish() const {
  for (const auto& [key, value] : object_.items()) {
    if (std::find(known_.begin(), known_.end(), key) != known_.end()) continue;
    throw InputError({place_.source(), at(key).path(), "", "is not a key that is known here",
                      nearest_word(key, known_)});
  }
}

Json encode(const std::string& value, Form) {
  const bool ascii = std::all_of(value.begin(), value.end(),
                                 [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return value;
  return Json::parse(Json(value).dump(-1, ' ', false, Json::error_handler_t::replace));
}

Json encode(const std::map<std::string, std::string>& value, Form form) {
  Json out = Json::object();
  for (const auto& [key, text] : value) out[key] = encode(text, form);
  return out;
}

Json encode(const std::vector<std::pair<std::string, std::string>>& value, Form form) {
  Json out = Json::object();
  for (const auto& [key, text] : value) out[key] = encode(text, form);
  return out;
}

void decode(const Json& json, const Place& place, bool& into) {
  if (!json.is_boolean()) refuse_kind(place, json, "true or false");
  into = json.get<bool>();
}

void decode(const Json& json, const Place& place, std::int64_t& into) {
  constexpr double kBeyond = 9223372036854775808.0;  // 2^63; what is written longer is read so
  if (json.is_number_float() && std::fabs(json.get<double>()) >= kBeyond) {
    refuse(place, json, "is beyond any number that is meant here");
  }
  if (!json.is_number_integer()) refuse_kind(place, json, "a whole number");
  constexpr std::uint64_t kMax = std::numeric_limits<std::int64_t>::max();
  if (json.is_number_unsigned() && json.get<std::uint64_t>() > kMax) {
    refuse(place, json, "must be at most " + std::to_string(kMax));
  }
  into = json.get<std::int64_t>();
}

void decode(const Json& json, const Place& place, std::uint64_t& into) {
  if (!json.is_number_integer()) refuse_kind(place, json, "a whole number");
  if (!json.is_number_unsigned() && json.get<std::int64_t>() < 0) {
    refuse(place, json, "must be at least 0", "0");
  }
  into = json.get<std::uint64_t>();
}

void decode(const Json& json, const Place& place, int& into) {
  std::int64_t wide = 0;
  decode(json, place, wide);
  require_range(wide, {std::numeric_limits<int>::min(), std::numeric_limits<int>::max()}, json,
                place);
  into = static_cast<int>(wide);
}

void decode(const Json& json, const Place& place, double& into) {
  if (!json.is_number() && !json.is_null()) refuse_kind(place, json, "a number");
  into = json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

void decode(const Json& json, const Place& place, std::string& into) {
  if (!json.is_string()) refuse_kind(place, json, "a string");
  into = json.get<std::string>();
}

void decode(const Json& json, const Place& place, std::map<std::string, std::string>& into) {
  if (!json.is_object()) refuse_kind(place, json, "an object");
  into.clear();
  for (const auto& [key, value] : json.items()) decode(value, place.at(key), into[key]);
}

void decode(const Json& json, const Place& place,
            std::vector<std::pair<std::string, std::string>>& into) {
  if (!json.is_object()) refuse_kind(place, json, "an object");
  into.clear();
  for (const auto& [key, value] : json.items()) {
    decode(value, place.at(key), into.emplace_back(key, "").second);
  }
}

void require_array(const Json& json, const Place& place) {
  if (!json.is_array()) refuse_kind(place, json, "a list");
}

void require_range(std::int64_t value, Range range, const Json& json, const Place& place) {
  const auto limit = [&](const char* words, std::int64_t bound) {
    refuse(place, json, words + std::to_string(bound), std::to_string(bound));
  };
  if (value < range.min) limit("must be at least ", range.min);
  if (value > range.max) limit("must be at most ", range.max);
}

}  // namespace planwright::json_io
