#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::deepspeed {

/// Elements, not bytes, of the buffer in which gradients are reduced.
constexpr const char* kReduceBucketKnob = "reduce_bucket_size";
/// Whether reduction runs beside the backward pass, from a second such buffer.
constexpr const char* kOverlapKnob = "overlap_comm";

std::int64_t reduce_bucket_elements(const Candidate& candidate);
/// `auto`, the default, is DeepSpeed's own choice, which depends on the stage.
bool overlaps(const Candidate& candidate);

/// The two, their defaults first.
const std::vector<Knob>& emitted_knobs();

/// What a DeepSpeed JSON cannot say.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::deepspeed
