#pragma once

#include "launcher/target.h"

namespace planwright::targets::hf_trainer {

/// The Trainer's arguments of a plan, twice: as options of the torchrun command, which any script
/// with an HfArgumentParser takes, and as training_arguments.yaml for scripts that read a file.
/// Beside them fsdp_config.json or ds_config.json, where one of the two shards. An InputError for a
/// plan that the arguments cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::hf_trainer
