#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron {

/// What products in 8 bits ask of the device, of the model's and the batch's sizes, and of the
/// other arguments.
std::vector<Rule> fp8_rules();

}  // namespace planwright::targets::megatron
