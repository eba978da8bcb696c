#include "launcher/targets/pytorch/log.h"

namespace planwright::targets::pytorch {

// An iteration is a micro-batch, of which a step has several: its time is no step's. The tokens are
// those of all ranks, padding included, over the whole run; GB are decimal. Source:
// Lightning-AI/litgpt litgpt/finetune/lora.py and full.py, litgpt/pretrain.py, litgpt/utils.py,
// create_finetuning_performance_report @ v0.5.9; "Memory used" @ v0.4.0.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "pytorch",
      .lines =
          {
              "iter {number} step {step} | loss train: {loss}",
              "Tok/sec : {mean_tokens_per_s} tok/s",
              "Memory used: {allocated_peak}",
              "Memory Used : {allocated_peak}",
          },
  };
  return format;
}

}  // namespace planwright::targets::pytorch
