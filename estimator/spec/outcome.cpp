#include "estimator/spec/outcome.h"

#include <algorithm>

namespace planwright {

Bytes Measurement::allocated_peak() const {
  Bytes worst;
  for (const auto& rank : ranks) worst = std::max(worst, rank.allocated_peak());
  return worst;
}

Bytes Measurement::tensor_peak() const {
  Bytes worst;
  for (const auto& rank : ranks) worst = std::max(worst, rank.tensor_peak());
  return worst;
}

OutcomeKind Outcome::kind() const {
  if (measurement() != nullptr) return OutcomeKind::ok;
  if (out_of_memory() != nullptr) return OutcomeKind::out_of_memory;
  return failure()->kind;
}

}  // namespace planwright
