#pragma once

#include "launcher/target.h"

namespace planwright::targets::megatron_deepspeed {

/// The arguments of pretrain_gpt.py in a torchrun line, the same one a line in
/// megatron_deepspeed_args.yaml for reading and comparing, and ds_config.json, which they name. An
/// InputError for a plan that these cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::megatron_deepspeed
