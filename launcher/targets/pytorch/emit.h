#pragma once

#include "launcher/target.h"

namespace planwright::targets::pytorch {

/// With the knob loop=script pytorch_settings.json, and torchrun with a script that is given
/// `--settings FILE`:
///
///     wrap                         "none", "ddp", or "fsdp" at zero 3
///     precision                    Lightning Fabric's word: "bf16-true", "16-mixed", ...
///     quantize                     its word for 4-bit weights, or null
///     lora                         {r, query, key, value, projection, mlp, dropout}, or null
///     lm_head_chunk_size           rows of a sequence whose logits are made at once; 0: all
///     checkpoint_blocks            whether every block is recomputed
///     micro_batch_size, gradient_accumulation_steps, sequence_length, optimizer
///     max_steps                    in a probe only
///
/// With loop=litgpt litgpt_config.yaml, and litgpt's command for the job with `--config FILE`,
/// which starts its ranks itself. An InputError for a plan that neither can be told.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::pytorch
