#pragma once

#include <string>

#include "estimator/spec/json.h"
#include "estimator/spec/problem.h"

/// A plan in the words of Lightning Fabric and of litgpt.
namespace planwright::targets::pytorch {

/// "bf16-true", "16-mixed", "32-true" and the like.
std::string precision_word(const PrecisionRecipe& recipe);
/// "bnb.nf4" and the like; null without 4-bit weights.
Json quantize_word(const Problem& problem);
/// A class of torch's or bitsandbytes'.
std::string optimizer_class(OptimizerKind kind);

/// Which of litgpt's matrices have adapters.
struct Adapted {
  bool query, key, value, projection, mlp;
};
Adapted adapted(const LoraSpec& lora);

}  // namespace planwright::targets::pytorch
