#pragma once

#include <array>
#include <string>
#include <string_view>

#include "estimator/spec/target_traits.h"
#include "estimator/spec/words.h"

/// What is told to FullyShardedDataParallel, for every target that may run it.
namespace planwright::targets {

/// What it gathers before a unit's backward beside that unit: nothing, or the unit whose backward
/// is next. The knob's values; none, Accelerate's and the Trainer's default, is the first.
enum class BackwardPrefetch { none, pre };
constexpr const char* kPrefetchKnob = "backward_prefetch";

Knob prefetch_knob();
bool prefetches(const Candidate& candidate);

/// The word that torch and Accelerate have for it.
std::string prefetch_word(const Candidate& candidate);

/// fully_shard decides for itself. `is_fsdp1`: whether a candidate is FullyShardedDataParallel's.
Rule prefetch_is_fsdp1s(bool (*is_fsdp1)(const Candidate&));

}  // namespace planwright::targets

namespace planwright {
template <>
struct Words<targets::BackwardPrefetch> {
  static constexpr std::array<std::string_view, 2> kWords{"none", "pre"};
};
}  // namespace planwright
