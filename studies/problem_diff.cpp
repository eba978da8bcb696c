#include "studies/problem_diff.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

namespace planwright::studies {
namespace {

constexpr const char* kDefault = "its default";

std::string text_of(const Json* value) { return value == nullptr ? kDefault : value->dump(); }

std::optional<Difference> differ(const std::string& path, const Json* left, const Json* right);

std::optional<Difference> differ_in_field(const std::string& path, const std::string& key,
                                          const Json& left, const Json& right) {
  const auto in = [&](const Json& json) { return json.contains(key) ? &json.at(key) : nullptr; };
  return differ(path.empty() ? key : path + "." + key, in(left), in(right));
}

std::optional<Difference> differ_in_object(const std::string& path, const Json& left,
                                           const Json& right) {
  for (const Json* side : {&left, &right}) {
    for (const auto& [key, value] : side->items()) {
      if (auto found = differ_in_field(path, key, left, right)) return found;
    }
  }
  return std::nullopt;
}

std::optional<Difference> differ_in_array(const std::string& path, const Json& left,
                                          const Json& right) {
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    const auto in = [&](const Json& json) { return i < json.size() ? &json.at(i) : nullptr; };
    if (auto found = differ(path + "[" + std::to_string(i) + "]", in(left), in(right)))
      return found;
  }
  return std::nullopt;
}

std::optional<Difference> differ(const std::string& path, const Json* left, const Json* right) {
  if (left != nullptr && right != nullptr) {
    if (*left == *right) return std::nullopt;
    if (left->is_object() && right->is_object()) return differ_in_object(path, *left, *right);
    if (left->is_array() && right->is_array()) return differ_in_array(path, *left, *right);
  }
  return Difference{path, text_of(left), text_of(right)};
}

}  // namespace

std::optional<Difference> first_difference(const Json& left, const Json& right) {
  return differ("", &left, &right);
}

}  // namespace planwright::studies
