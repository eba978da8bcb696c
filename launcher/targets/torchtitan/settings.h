#pragma once

#include "estimator/spec/json.h"
#include "launcher/target.h"

namespace planwright::targets::torchtitan {

/// Sections `training`, `parallelism` and, of 0.2, `activation_checkpoint` of a plan, by
/// torchtitan's names. Defaults that decide about memory are written out.
Json training(const launcher::EmitRequest& request);
Json parallelism(const launcher::EmitRequest& request);
Json activation_checkpoint(const Candidate& candidate);

}  // namespace planwright::targets::torchtitan
