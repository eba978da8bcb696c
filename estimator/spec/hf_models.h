#pragma once

#include "estimator/spec/hf_reader.h"
#include "estimator/spec/model_spec.h"

/// What the keys of each family mean: the model of a config.json, without its name and family.
/// Sources: huggingface/transformers src/transformers/models/<family>/configuration_<family>.py and
/// modeling_<family>.py, version 4.57; the spellings of 5.0 beside them.
namespace planwright::hf {

ModelSpec gpt2(const HfReader& config);
ModelSpec llama(const HfReader& config);
ModelSpec mistral(const HfReader& config);
ModelSpec qwen2(const HfReader& config);
ModelSpec qwen3(const HfReader& config);

}  // namespace planwright::hf
