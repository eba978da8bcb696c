#pragma once

#include "launcher/target.h"

namespace planwright::targets::megatron {

/// torchrun with Megatron-LM's pretrain_gpt.py, or the request's script in its place, and all
/// arguments of the plan; megatron_args.yaml has the same arguments for people and for --diff. An
/// InputError for a plan that the arguments cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::megatron
