#pragma once

#include "launcher/target.h"

namespace planwright::targets::fsdp {

/// fsdp_settings.json, and torchrun with a script that is given `--settings FILE`. The file says
/// what torch's own interfaces are to be told:
///
///     wrap                         "fully_shard", "FullyShardedDataParallel" or at zero 0 "ddp"
///     mesh                         {dp_replicate, dp_shard}: init_device_mesh
///     reshard_after_forward        fully_shard's; of FullyShardedDataParallel FULL_SHARD, or else
///                                  SHARD_GRAD_OP
///     backward_prefetch            FullyShardedDataParallel's: null, as Accelerate has it
///     storage_dtype                the model's parameters, which the optimizer updates
///     param_dtype, reduce_dtype    MixedPrecisionPolicy's or MixedPrecision's; autocast's with ddp
///     cpu_offload                  CPUOffloadPolicy or none
///     checkpoint_blocks            indices of the blocks that checkpoint_wrapper wraps
///     micro_batch_size, gradient_accumulation_steps, sequence_length, optimizer
///     attention, loss              which kernels; the loss fused is flash-attn's CrossEntropyLoss
///                                  of the logits that the model returns
///     max_steps                    in a probe only
///
/// What the file was derived from is in origin.json beside it. An InputError for a plan that it
/// cannot say.
launcher::LaunchConfig emit(const launcher::EmitRequest& request);

}  // namespace planwright::targets::fsdp
