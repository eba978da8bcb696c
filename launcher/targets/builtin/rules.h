#pragma once

#include <optional>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::builtin {

/// The types that the worker keeps for a `--precision` word. Source: docs/runtime.md, Recipes.
std::optional<PrecisionRecipe> recipe(Precision precision);

constexpr const char* kBucketKnob = "bucket_elements";
constexpr std::int64_t kDefaultBucketElements = 4194304;  ///< 16 MiB of fp32 gradients

constexpr const char* kOverlapKnob = "overlap";

/// Whether the data ranks' collectives are carried out beside the passes: unless the knob is off.
bool overlaps(const Candidate& candidate);

/// The candidate's bucket size: its knob's, or the default. An InputError if the knob is no
/// positive number.
std::int64_t bucket_elements(const Candidate& candidate);

/// What the worker cannot run, and what to do instead.
std::vector<Rule> rules();

}  // namespace planwright::targets::builtin
