#pragma once

#include <vector>

#include "launcher/target.h"

namespace planwright::launcher {

/// What the target writes for plans beside the request's: each ZeRO stage with each value of each
/// knob, and one more dimension changed. Plans that it cannot write are left out.
std::vector<LaunchConfig> other_plans(const Target& target, const EmitRequest& request);

}  // namespace planwright::launcher
