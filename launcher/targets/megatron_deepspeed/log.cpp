#include "launcher/targets/megatron_deepspeed/log.h"

namespace planwright::targets::megatron_deepspeed {

// Times are in seconds, before 2022 in ms; with --log-interval N they are the mean of N iterations.
// The engine's own line of a step follows it. Sources: bigscience-workshop/Megatron-DeepSpeed
// megatron/training.py, megatron/utils.py @ 8387ae1; microsoft/DeepSpeed
// deepspeed/runtime/pipe/engine.py @ v0.5.10.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "megatron-deepspeed",
      .lines =
          {
              "iteration {step}/{steps} | consumed samples:",
              "elapsed time per iteration (s): {step_s}",
              "elapsed time per iteration (ms): {step_ms}",
              "| lm loss: {loss}",
              ("memory (MB) | allocated: {allocated_mib} | max allocated: {allocated_peak_mib} | "
               "reserved: {reserved_mib} | max reserved: {reserved_peak_mib}"),
          },
      .ignored = {"validation loss at", "test set"},
  };
  return format;
}

}  // namespace planwright::targets::megatron_deepspeed
