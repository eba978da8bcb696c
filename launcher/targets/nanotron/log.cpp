#include "launcher/targets/nanotron/log.h"

namespace planwright::targets::nanotron {

// Rank 0 is on the first stage. It writes its memory around the passes of the first steps, and
// starts to look for a peak anew each time. Sources: huggingface/nanotron src/nanotron/trainer.py,
// src/nanotron/logging/base.py @ 2411b02; in 0.4 the time is elapsed_time_per_iteration_ms.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "nanotron",
      .lines = {"iteration: {step} / {steps} |", "time_per_iteration_ms: {step_ms}",
                "elapsed_time_per_iteration_ms: {step_ms}", "| lm_loss: {loss}",
                "Memory usage: {allocated}. Peak allocated {allocated_peak}",
                "Memory usage: {allocated}. Peak allocated: {allocated_peak}",
                "Peak reserved: {reserved_peak}"},
      .ignored = {"[After model building]", "validation"},
  };
  return format;
}

}  // namespace planwright::targets::nanotron
