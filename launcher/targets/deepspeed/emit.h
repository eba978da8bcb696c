#pragma once

#include "launcher/target.h"

namespace planwright::targets::deepspeed {

/// ds_config.json, started by torchrun; the script is given `--deepspeed_config FILE`, as
/// deepspeed.add_config_arguments reads it. launch_deepspeed.sh does the same through DeepSpeed's
/// own launcher, over `hostfile` where there are several nodes. An InputError for a plan that the
/// JSON cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::deepspeed
