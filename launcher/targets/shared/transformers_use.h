#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// What a target that trains Hugging Face's models lets its user choose of how their modules run.
namespace planwright::targets {

/// Versions whose models and loss functions differ in what they make; the first is the default.
enum class TransformersVersion { v5, v4_48, v4_45 };
/// Kernels that take the place of modules: of norms and rotary positions, and Liger's of SwiGLU.
enum class ModuleKernels { eager, unsloth, liger };
/// Who prepares a 4-bit model: peft's prepare_model_for_kbit_training leaves the norms in fp32,
/// and with them all that goes from block to block.
enum class KbitPreparation { none, peft };

/// transformers, kernels, autocast, lora_dropout, kbit.
const std::vector<Knob>& module_knobs();

/// Whether the knob says how adapters, or what is under them, are made.
bool is_of_adapters(const std::string& knob);

/// A loss that is not torch's needs kernels that bring it, and Liger's bring the chunked one.
std::vector<Rule> module_rules(const std::string& source);

/// How weights are where the modules run.
struct ModuleTypes {
  bool gathered = false;  ///< in the type that is computed in, whatever the stored one
  bool autocast = false;
};

/// The modules themselves, on any device.
KernelSet transformers_modules(DeviceKind kind);
HfModules modules_of(const Problem& problem, const Candidate& candidate, const ModuleTypes& types);

bool autocasts(const Candidate& candidate);
bool uses_liger(const Candidate& candidate);
bool uses_unsloth(const Candidate& candidate);
/// Whether transformers' own checkpoint runs a block again as a whole before its backward.
bool checkpoints_reentrantly(const Candidate& candidate);

}  // namespace planwright::targets

namespace planwright {
template <>
struct Words<targets::TransformersVersion> {
  static constexpr std::array<std::string_view, 3> kWords{"5.23", "4.48", "4.45"};
};
template <>
struct Words<targets::ModuleKernels> {
  static constexpr std::array<std::string_view, 3> kWords{"eager", "unsloth", "liger"};
};
template <>
struct Words<targets::KbitPreparation> {
  static constexpr std::array<std::string_view, 2> kWords{"none", "peft"};
};
}  // namespace planwright
