#include "launcher/targets/torchtitan/log.h"

namespace planwright::targets::torchtitan {

// Sources: pytorch/torchtitan torchtitan/components/metrics.py @ v0.1.0 (no grad_norm), v0.2.0,
// v0.2.1, v0.2.2 (more digits of the loss), b5bcd76 (mfu may be N/A).
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "torchtitan",
      .lines = {"step: {step} loss: {loss} {*}memory: {reserved_peak}({*}) "
                "tps: {tokens_per_s_per_device}",
                "{allocation_retries} CUDA memory allocation retries"},
      .ignored = {"validate step: {step}"},
  };
  return format;
}

}  // namespace planwright::targets::torchtitan
