#pragma once

#include "cli/settings.h"
#include "estimator/spec/model_spec.h"
#include "estimator/spec/workload.h"

namespace planwright::cli {

/// The adapters of the jobs lora and qlora; without settings of rank 8 on q_proj and v_proj. An
/// InputError for settings of another job, and for modules that the model does not have.
LoraSpec read_lora(const Settings& settings, Job job, const ModelSpec& model);

}  // namespace planwright::cli
