#pragma once

#include "estimator/spec/json.h"
#include "launcher/target.h"

namespace planwright::targets::nanotron {

/// Steps of a launch for which nobody said how many it has.
constexpr int kTrialSteps = 10;

/// nanotron's configuration of a plan, by its sections. What decides about memory or time is
/// written out, whatever its default; what no plan decides and nanotron does not start without, as
/// its own example has it.
Json config(const launcher::EmitRequest& request);

}  // namespace planwright::targets::nanotron
