#pragma once

#include "launcher/target.h"

namespace planwright::targets::accelerate {

/// accelerate.yaml and `accelerate launch --config_file` with the script, or torchrun with several
/// ranks of a CPU. The file chooses DDP, FSDP1, FSDP2 or Accelerate's DeepSpeed plug-in (rules.h);
/// micro-batch, optimizer and model are the script's, and the warnings say so. An InputError for a
/// plan that the file cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::accelerate
