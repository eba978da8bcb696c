#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

/// How hand-off types are spelled in JSON: one table of fields per type, from which both its writer
/// and its strict reader are made. For the sources of spec and protocol; others use json.h.
namespace planwright::json_io {

/// Where a value stands, for messages. A chain of objects on the stack, spelled out only when a
/// message is made: a Place must not outlive the one it was made from.
class Place {
 public:
  explicit Place(const std::string& source) : source_(&source) {}
  Place at(std::string_view key) const { return Place(*this, key, 0); }
  Place at(std::size_t index) const { return Place(*this, {}, index); }

  const std::string& source() const { return *source_; }
  std::string path() const;  ///< "train[0].problem.model"; empty for the whole text

 private:
  Place(const Place& parent, std::string_view key, std::size_t index)
      : source_(parent.source_), parent_(&parent), key_(key), index_(index) {}

  const std::string* source_;
  const Place* parent_ = nullptr;
  std::string_view key_;  ///< empty: an element of a list
  std::size_t index_ = 0;
};

/// Throws the InputError that names the place and shows the value, shortened.
[[noreturn]] void refuse(const Place& place, const Json& value, const std::string& rule,
                         const std::string& nearest = "");

/// What is written of a value. sparse: fields that differ from their default; hashed: those of
/// them that change what the value means (no file names, no sources).
enum class Form { full, sparse, hashed };

struct Range {
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};
constexpr Range kAny{};
constexpr Range kNatural{.min = 0};
constexpr Range kPositive{.min = 1};
constexpr Range kExact{.min = -(std::int64_t{1} << 53), .max = std::int64_t{1} << 53};

enum class Hashed { yes, no };

/// One row of a type's table. `member` is a pointer to it, or a generic function from the object to
/// a reference.
template <class Member>
struct Field {
  std::string_view key;
  Member member;
  Range range = kAny;
  Hashed hashed = Hashed::yes;
};
/// clang deduces none for an aggregate before version 17.
template <class Member>
Field(std::string_view, Member, Range = kAny, Hashed = Hashed::yes) -> Field<Member>;

/// Specialise with `static constexpr auto kFields = std::tuple{Field{...}, ...}`.
template <class T>
struct Fields;

template <class T>
concept Tabled = requires {
  Fields<T>::kFields;
};
template <class T>
concept Worded = requires {
  Words<T>::kWords;
};

/// Reads one object: takes known keys, then refuses what is left, with the nearest known spelling.
class ObjectReader {
 public:
  ObjectReader(const Json& object, const Place& place);

  /// The value of `key`, which is known from now on; null if it is absent.
  const Json* find(std::string_view key);
  /// The same; an absent key is refused.
  const Json& require(std::string_view key);
  /// A key that repeats what other keys say: absent, or equal to `expected`.
  void derived(std::string_view key, const Json& expected);
  template <class T>
  void read(std::string_view key, T& into, Range range = kAny);
  /// To be called when every known key has been named.
  void finish() const;

  Place at(std::string_view key) const { return place_.at(key); }

 private:
  const Json& object_;
  const Place& place_;
  std::vector<std::string> known_;
};

// Writers. A number that is not finite has no JSON spelling and is written as null.
template <std::integral T>
Json encode(T value, Form) {
  return value;
}
inline Json encode(double value, Form) { return std::isfinite(value) ? Json(value) : Json(); }
/// Bytes that are not UTF-8 (a log may hold any) become U+FFFD.
Json encode(const std::string& value, Form);
Json encode(const std::map<std::string, std::string>& value, Form);
Json encode(const std::vector<std::pair<std::string, std::string>>& value, Form);
template <Worded T>
Json encode(T value, Form) {
  return std::string(word(value));
}
template <class Tag, class Rep>
Json encode(Unit<Tag, Rep> value, Form form) {
  return encode(value.value, form);
}
template <class T>
Json encode(const std::optional<T>& value, Form form) {
  return value ? encode(*value, form) : Json();
}
template <class T>
Json encode(const std::vector<T>& values, Form form) {
  Json out = Json::array();
  for (const auto& value : values) out.push_back(encode(value, form));
  return out;
}
template <Tabled T>
Json encode(const T& value, Form form) {
  static const T kDefault{};
  Json out = Json::object();
  const auto write = [&](const auto& field) {
    const auto& now = std::invoke(field.member, value);
    if (form != Form::full && now == std::invoke(field.member, kDefault)) return;
    if (form == Form::hashed && field.hashed == Hashed::no) return;
    out[std::string(field.key)] = encode(now, form);
  };
  std::apply([&](const auto&... field) { (write(field), ...); }, Fields<T>::kFields);
  return out;
}

// Readers. Each replaces `into`, or throws the InputError that names the place.
void decode(const Json& json, const Place& place, bool& into);
void decode(const Json& json, const Place& place, std::int64_t& into);
void decode(const Json& json, const Place& place, std::uint64_t& into);
void decode(const Json& json, const Place& place, int& into);
/// Null is read as NaN, the reverse of what is written.
void decode(const Json& json, const Place& place, double& into);
void decode(const Json& json, const Place& place, std::string& into);
void decode(const Json& json, const Place& place, std::map<std::string, std::string>& into);
void decode(const Json& json, const Place& place,
            std::vector<std::pair<std::string, std::string>>& into);
void require_array(const Json& json, const Place& place);
void require_range(std::int64_t value, Range range, const Json& json, const Place& place);

template <Worded T>
void decode(const Json& json, const Place& place, T& into) {
  std::string text;
  decode(json, place, text);
  into = parse_word<T>(text, place.source(), place.path());
}
/// A whole amount, such as bytes, is what a JSON number holds exactly; sums of some do not
/// overflow.
template <class Tag, class Rep>
void decode(const Json& json, const Place& place, Unit<Tag, Rep>& into) {
  decode(json, place, into.value);
  if constexpr (std::integral<Rep>) require_range(into.value, kExact, json, place);
}
template <class T>
void decode(const Json& json, const Place& place, std::optional<T>& into) {
  into.reset();
  if (!json.is_null()) decode(json, place, into.emplace());
}
template <class T>
void decode(const Json& json, const Place& place, std::vector<T>& into) {
  require_array(json, place);
  into.assign(json.size(), T{});
  for (std::size_t i = 0; i < json.size(); ++i) decode(json[i], place.at(i), into[i]);
}
template <Tabled T>
void decode(const Json& json, const Place& place, T& into) {
  ObjectReader object(json, place);
  const auto read = [&](const auto& field) {
    object.read(field.key, std::invoke(field.member, into), field.range);
  };
  std::apply([&](const auto&... field) { (read(field), ...); }, Fields<T>::kFields);
  object.finish();
}

// The hand-off types, whose tables stand in json_*.cpp.
Json encode(const Recompute& value, Form form);
Json encode(const Offload& value, Form form);
Json encode(const Ledger& value, Form form);
Json encode(const ModelSpec& value, Form form);
Json encode(const ClusterSpec& value, Form form);
Json encode(const Workload& value, Form form);
Json encode(const Problem& value, Form form);
Json encode(const Candidate& value, Form form);
Json encode(const ProbeScope& value, Form form);
Json encode(const Calibration& value, Form form);
Json encode(const Estimate& value, Form form);
Json encode(const RankMeasurement& value, Form form);
Json encode(const TimeSplit& value, Form form);
Json encode(const OutOfMemory& value, Form form);
Json encode(const Outcome& value, Form form);
Json encode(const Trial& value, Form form);
Json encode(const HostRates& value, Form form);
void decode(const Json& json, const Place& place, Recompute& into);
void decode(const Json& json, const Place& place, Offload& into);
void decode(const Json& json, const Place& place, Ledger& into);
void decode(const Json& json, const Place& place, ModelSpec& into);
void decode(const Json& json, const Place& place, ClusterSpec& into);
void decode(const Json& json, const Place& place, Workload& into);
void decode(const Json& json, const Place& place, Problem& into);
void decode(const Json& json, const Place& place, Candidate& into);
void decode(const Json& json, const Place& place, ProbeScope& into);
void decode(const Json& json, const Place& place, Calibration& into);
void decode(const Json& json, const Place& place, Estimate& into);
void decode(const Json& json, const Place& place, RankMeasurement& into);
void decode(const Json& json, const Place& place, TimeSplit& into);
void decode(const Json& json, const Place& place, OutOfMemory& into);
void decode(const Json& json, const Place& place, Outcome& into);
void decode(const Json& json, const Place& place, Trial& into);
void decode(const Json& json, const Place& place, HostRates& into);

/// The accounts of a ledger on a device that may lack the accounts outside the allocator: those
/// are null, not 0, when `outside` is false and they hold nothing.
Json encode_accounts(const Ledger& ledger, bool outside);

template <class T>
void ObjectReader::read(std::string_view key, T& into, Range range) {
  const Json* json = find(key);
  if (json == nullptr) return;
  const Place place = at(key);
  decode(*json, place, into);
  if constexpr (std::same_as<T, int> || std::same_as<T, std::int64_t>) {
    require_range(into, range, *json, place);
  } else if constexpr (std::same_as<T, Bytes>) {
    require_range(into.value, range, *json, place);
  }
}

}  // namespace planwright::json_io
