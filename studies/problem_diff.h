#pragma once

#include <optional>
#include <string>

#include "estimator/spec/json.h"

namespace planwright::studies {

/// Where two JSON values part: "workload.global_batch", "model.runs[0].count". A side that leaves
/// the field out has it at its default, and says so.
struct Difference {
  std::string path;
  std::string left, right;  ///< values as JSON text
  bool operator==(const Difference&) const = default;
};

/// The first difference in the order of the left side's fields; nullopt if they are equal.
std::optional<Difference> first_difference(const Json& left, const Json& right);

}  // namespace planwright::studies
