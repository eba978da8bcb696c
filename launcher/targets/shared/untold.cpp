#include "launcher/targets/shared/untold.h"

#include <fmt/core.h>

namespace planwright::targets {

std::string scaling_text(const ModelSpec& model) {
  if (!model.rope_scaling) return "";
  const RopeScaling& scaling = *model.rope_scaling;
  std::string text = fmt::format("rope_scaling {} (factor {}", scaling.type, scaling.factor);
  if (scaling.original_positions > 0) {
    text += fmt::format(", original_max_position_embeddings {}", scaling.original_positions);
  }
  return text + ")";
}

std::string router_text(const MoeSpec& moe) {
  std::string text = fmt::format("a router with scoring_func {}, norm_topk_prob {}",
                                 word(moe.score), moe.weights_sum_to_one);
  if (moe.groups > 0)
    text += fmt::format(", n_group {}, topk_group {}", moe.groups, moe.top_groups);
  if (moe.weights_scale != 1.0)
    text += fmt::format(", routed_scaling_factor {}", moe.weights_scale);
  return text;
}

void warn_of_untold(launcher::LaunchConfig& config, const ModelSpec& model,
                    std::vector<std::string> untold, const std::string& maker) {
  if (!model.unsized.empty()) untold.push_back(model.unsized);
  if (untold.empty()) return;
  std::string all;
  for (const std::string& each : untold) all += (all.empty() ? "" : "; ") + each;
  config.warnings.push_back(
      fmt::format("these files cannot say of the model: {}. {} does without, so its model computes "
                  "something else",
                  all, maker));
}

}  // namespace planwright::targets
