#pragma once

#include <string>
#include <vector>

#include "estimator/spec/model_spec.h"
#include "launcher/target.h"

/// What a framework that makes the model from words is not told of it. Whoever loads the model's
/// own configuration needs none of this.
namespace planwright::targets {

/// "rope_scaling yarn (factor 40)"; empty without one.
std::string scaling_text(const ModelSpec& model);

/// "a router that ...", in the configuration's keys and values.
std::string router_text(const MoeSpec& moe);

/// Says what of the model is in no word of these files, and that `maker` does without it; `untold`
/// and the model's keys that no field has. Nothing if there is none.
void warn_of_untold(launcher::LaunchConfig& config, const ModelSpec& model,
                    std::vector<std::string> untold, const std::string& maker);

}  // namespace planwright::targets
