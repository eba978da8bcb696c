#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// Rules about what a framework may well run and this version cannot estimate for it. An emitter
/// does not ask them: such a plan can be written.
namespace planwright::targets {

/// Models beyond dense decoders; quantised frozen weights, but on GPUs where transformers' modules
/// run on them.
std::vector<Rule> estimable_models(bool transformers = false);

/// Optimizers whose states the target's holdings have a row for; adafactor's only as long as each
/// rank has whole tensors.
std::vector<Rule> estimable_optimizers(const std::vector<OptimizerKind>& kinds);

/// Offload from GPUs.
std::vector<Rule> estimable_offload();

/// Types of gradients, states and masters as the target keeps them for the precision's word;
/// gradients also in the type that is computed in, or in fp32, if `any_gradient`. Where states are
/// like weights all three may be in the type that is computed in.
Rule estimable_types(const std::function<std::optional<PrecisionRecipe>(Precision)>& recipe,
                     bool any_gradient, bool states_like_weights = false);

}  // namespace planwright::targets
