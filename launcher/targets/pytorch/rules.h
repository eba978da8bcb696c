#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::pytorch {

/// Whose loop trains. The knob's values: script, the user's; litgpt, the commands of litgpt.
enum class Loop { script, litgpt };
/// Whose modules the model is made of: litgpt's, of a version.
enum class LitgptVersion { v0_5, v0_4 };

Loop loop_of(const Candidate& candidate);
LitgptVersion litgpt_of(const Candidate& candidate);
bool drops_adapter_inputs(const Candidate& candidate);

/// Weights, gradients and states in the type that is computed in: Fabric's "-true"; else fp32 under
/// autocast, its "-mixed".
bool all_narrow(const PrecisionRecipe& recipe);
/// Rows of each sequence whose logits litgpt's commands for the job make at once; 0: all.
std::int64_t logit_rows(Job job);

const std::vector<Knob>& emitted_knobs();

/// What a plain loop cannot be told.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::pytorch

namespace planwright {
template <>
struct Words<targets::pytorch::Loop> {
  static constexpr std::array<std::string_view, 2> kWords{"script", "litgpt"};
};
template <>
struct Words<targets::pytorch::LitgptVersion> {
  static constexpr std::array<std::string_view, 2> kWords{"0.5", "0.4"};
};
}  // namespace planwright
