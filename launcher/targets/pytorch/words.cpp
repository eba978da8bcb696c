#include "launcher/targets/pytorch/words.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "launcher/targets/pytorch/rules.h"

namespace planwright::targets::pytorch {

std::string precision_word(const PrecisionRecipe& recipe) {
  const std::string bits = recipe.compute == DType::bf16   ? "bf16"
                           : recipe.compute == DType::fp16 ? "16"
                                                           : "32";
  return bits + (all_narrow(recipe) ? "-true" : "-mixed");
}

Json quantize_word(const Problem& problem) {
  const auto& format = problem.workload.serving.weights;
  return format ? Json("bnb." + format->name) : Json();
}

std::string optimizer_class(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw:
      return "torch.optim.AdamW";
    case OptimizerKind::adam8bit:
      return "bitsandbytes.optim.AdamW8bit";
    case OptimizerKind::paged_adam8bit:
      return "bitsandbytes.optim.PagedAdamW8bit";
    case OptimizerKind::adafactor:
      return "torch.optim.Adafactor";
    case OptimizerKind::sgd:
      return "torch.optim.SGD";
    case OptimizerKind::lion:
      return "bitsandbytes.optim.Lion32bit";
  }
  return "";
}

Adapted adapted(const LoraSpec& lora) {
  using enum LoraTarget;
  const auto any = [&](std::initializer_list<LoraTarget> targets) {
    return std::any_of(targets.begin(), targets.end(), [&](LoraTarget each) {
      return std::find(lora.targets.begin(), lora.targets.end(), each) != lora.targets.end();
    });
  };
  return {any({q_proj, qkv_proj}), any({k_proj, qkv_proj}), any({v_proj, qkv_proj}), any({o_proj}),
          any({gate_proj, up_proj, gate_up_proj, down_proj})};
}

}  // namespace planwright::targets::pytorch
