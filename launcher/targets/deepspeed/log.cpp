#include "launcher/targets/deepspeed/log.h"

namespace planwright::targets::deepspeed {

// GB is GiB everywhere. Max_CA is rounded to whole ones. A timer line of micro-steps has other
// names
// ("fwd_microstep") and is no step; backward_inner and _allreduce are inside backward.
// Sources: deepspeedai/DeepSpeed deepspeed/utils/timer.py, deepspeed/runtime/engine.py,
// deepspeed/runtime/pipe/engine.py, deepspeed/runtime/utils.py, deepspeed/runtime/zero/stage3.py @
// 0.3.16, 0.5.10, 0.19.5, 0.19.8; the timers were "forward", "backward" and "step" until 0.9.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "deepspeed",
      .lines =
          {
              ("global_step={step}, RunningAvgSamplesPerSec={mean_samples_per_s}, "
               "CurrSamplesPerSec={samples_per_s}"),
              ("/{step}, RunningAvgSamplesPerSec={mean_samples_per_s}, "
               "CurrSamplesPerSec={samples_per_s}"),
              ", SamplesPerSec={mean_samples_per_s}",
              "MemAllocated={allocated}",
              "MaxMemAllocated={allocated_peak}",
              "time (ms) | fwd: {part_ms} | bwd: {part_ms} {*}| step: {part_ms}",
              "time (ms) | forward: {part_ms} | backward: {part_ms} {*}| step: {part_ms}",
              "steps: {step} loss: {loss} {*}iter time (s): {step_s} samples/sec: {samples_per_s}",
              "MA {allocated} Max_MA {allocated_peak} CA {reserved} Max_CA {reserved_peak}",
              "| mem_allocated: {allocated}",
              "| max_mem_allocated: {allocated_peak}",
              "| cache_allocated: {reserved}",
              "| max_cache_allocated: {reserved_peak}",
              "{allocation_retries} pytorch allocator cache flushes since last step",
          },
      .binary_units = true,
  };
  return format;
}

}  // namespace planwright::targets::deepspeed
