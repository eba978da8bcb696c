#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "estimator/spec/candidate.h"

/// How an axis's value is ordered and spelled, whatever its type.
namespace planwright {

inline int order_key(int value) { return value; }
inline auto order_key(const Recompute& r) { return std::tie(r.kind, r.k, r.modules); }
inline auto order_key(const Offload& o) {
  return std::make_tuple(o.optimizer, o.params, o.activations, o.to);
}
template <class Enum>
requires std::is_enum_v<Enum>
int order_key(Enum value) { return static_cast<int>(value); }

inline std::string axis_text(int value) { return std::to_string(value); }
inline std::string axis_text(bool value) { return value ? "on" : "off"; }
inline std::string axis_text(const Recompute& value) { return recompute_text(value); }
inline std::string axis_text(const Offload& value) {
  return offload_text(value) + (value.to == OffloadTo::nvme ? " to nvme" : "");
}
template <class Enum>
requires std::is_enum_v<Enum> std::string axis_text(Enum value) { return std::string(word(value)); }

/// Degrees that a free axis of ranks takes. Rules and the devices say which of them a problem can
/// have.
inline const std::vector<int>& usual_degrees() {
  static const std::vector<int> kDegrees{1,  2,  3,  4,  5,  6,  7,  8,  10,
                                         12, 14, 16, 20, 24, 32, 40, 48, 64};
  return kDegrees;
}

/// Ascending, each value once.
template <class T>
std::vector<T> canonical(std::vector<T> values) {
  std::sort(values.begin(), values.end(),
            [](const T& a, const T& b) { return order_key(a) < order_key(b); });
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

}  // namespace planwright
