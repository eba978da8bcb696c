#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::megatron {

/// Models that the arguments of pretrain_gpt.py, as these files have them, cannot describe.
std::vector<Rule> model_rules();

}  // namespace planwright::targets::megatron
