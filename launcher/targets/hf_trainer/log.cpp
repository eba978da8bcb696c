#include "launcher/targets/hf_trainer/log.h"

namespace planwright::targets::hf_trainer {

// The training's bar has no description before it, and its first drawing no rate; bars of an
// evaluation have another length. The rate is smoothed over the last steps. MB in a block of
// metrics is MiB. Sources: huggingface/transformers src/transformers/trainer.py,
// trainer_callback.py, trainer_utils.py, trainer_pt_utils.py @ 4.40, 4.57, 5.23; tqdm/tqdm
// tqdm/std.py @ 4.70.
const launcher::LogFormat& log_format() {
  static const launcher::LogFormat format{
      .name = "hf-trainer",
      .lines =
          {
              "{^} {number}%|{*}| {step}/{steps} [{*}<{*}, {step_s}s/it",
              "{^} {number}%|{*}| {step}/{steps} [{*}<{*}, {steps_per_s}it/s",
              "{^} {number}%|{*}| {step}/{steps} [",
              "loss{=}{loss}",
              "train_steps_per_second{=}{mean_steps_per_s}",
              "train_samples_per_second{=}{mean_samples_per_s}",
              "train_tokens_per_second{=}{mean_tokens_per_s}",
              "before_init_mem_gpu{=}{allocated_peak_part}",
              "init_mem_gpu_alloc_delta{=}{allocated_peak_part}",
              "train_mem_gpu_alloc_delta{=}{allocated_peak_part}",
              "train_mem_gpu_peaked_delta{=}{allocated_peak_part}",
          },
      .ignored = {": {number}%|"},
      .binary_units = true,
  };
  return format;
}

}  // namespace planwright::targets::hf_trainer
