#include "launcher/targets/megatron/log.h"

namespace planwright::targets::megatron {

// With --log-interval N the time is the mean of N iterations. Up to 0.15 memory is said once, after
// the first logged iteration. A validation's line has losses that are no step's.
// mem-max-allocated-bytes is the name of the peak in TensorBoard and in the values that the
// functional tests keep. Sources: NVIDIA/Megatron-LM megatron/training/training.py,
// megatron/training/utils.py (in 0.19 megatron/training/utils/common_utils.py) @ core_v0.14.0 to
// 0.19.0.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "megatron",
      .lines =
          {
              "iteration {step}/{steps} | consumed samples:",
              "elapsed time per iteration (ms): {step_ms}",
              "| lm loss: {loss}",
              ("memory (MB) | allocated: {allocated_mib} | max allocated: {allocated_peak_mib} | "
               "reserved: {reserved_mib} | max reserved: {reserved_peak_mib}"),
              "| total device memory used: {device_used_mib}",
              "mem-max-allocated-bytes{=}{allocated_peak_bytes}",
          },
      .ignored = {"validation loss at", "test set"},
  };
  return format;
}

}  // namespace planwright::targets::megatron
