#include "launcher/targets/shared/transformers_use.h"

#include <algorithm>
#include <array>

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets {
namespace {

constexpr const char* kVersion = "transformers";
constexpr const char* kKernels = "kernels";
constexpr const char* kAutocast = "autocast";
constexpr const char* kDropout = "lora_dropout";
constexpr const char* kKbit = "kbit";
constexpr const char* kOn = "on";
constexpr const char* kOff = "off";

template <class Word>
Word chosen(const Candidate& c, const char* knob) {
  return from_word<Word>(knob_value(c, module_knobs(), knob)).value_or(Word{});
}

template <std::size_t n>
bool among(const std::array<std::string_view, n>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whose flash attention copies keys and values for each query head in 4.45. Source:
/// transformers models/mistral/modeling_mistral.py, models/qwen2/modeling_qwen2.py @ v4.45.2.
constexpr std::array<std::string_view, 3> kRepeating{"mistral", "qwen2", "qwen2_moe"};
/// Whose activation is gelu_new, out of torch's operators. Source: transformers activations.py,
/// NewGELUActivation, and the configurations of these families @ v5.23.0.
constexpr std::array<std::string_view, 6> kGeluNew{"gpt2", "gpt_neo", "gptj",
                                                   "phi",  "codegen", "openai-gpt"};

/// Whose blocks have one product for queries, keys and values with learned positions. Source:
/// transformers models/gpt2/modeling_gpt2.py, models/gpt_bigcode/modeling_gpt_bigcode.py @ v4.48.1.
constexpr std::array<std::string_view, 2> kFusedQkv{"gpt2", "gpt_bigcode"};
/// Whose loss is computed in the logits' own type, to 4.48. Source: these families' modeling files
/// @ v4.45.2 and v4.48.1.
constexpr std::array<std::string_view, 6> kNarrowLoss{"gpt2",     "gpt_bigcode", "opt",
                                                      "gpt_neox", "falcon",      "bloom"};

LossStyle loss_style(TransformersVersion version, const std::string& family) {
  if (version == TransformersVersion::v5) return LossStyle::shifted_labels;
  if (among(kNarrowLoss, family)) return LossStyle::narrow;
  return version == TransformersVersion::v4_48 ? LossStyle::function : LossStyle::in_model;
}

/// A LoRA model is loaded in the type that is computed in, and PEFT makes fp32 adapters beside it.
/// Source: peft src/peft/tuners/tuners_utils.py, cast_adapter_dtype @ 0.13.2.
void set_types(HfModules& m, const Problem& problem, const ModuleTypes& types) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const DType stored = updated_type(recipe);
  const bool narrow = types.gathered || problem.model.lora.freezes();
  m.weights = m.norms = m.stream = narrow ? recipe.compute : stored;
  m.adapters = types.gathered ? recipe.compute : stored;
  m.autocast = types.autocast && recipe.compute != DType::fp32;
  // Autocast's LayerNorm is fp32, and a 4-bit product as wide as its input.
  const bool rms = problem.model.runs.front().block.norm == NormKind::rms_norm;
  if (m.quantised && m.autocast && !rms) m.stream = DType::fp32;
}

}  // namespace

const std::vector<Knob>& module_knobs() {
  static const std::vector<Knob> kKnobs{
      {kVersion, all_words<TransformersVersion>(),
       "the version of transformers: its loss function, attention and checkpoint"},
      {kKernels, all_words<ModuleKernels>(), "whose norms, rotary positions and SwiGLU run"},
      {kAutocast, {kOn, kOff}, "whether products are computed under autocast"},
      {kDropout, {kOff, kOn}, "whether adapters drop a part of their input"},
      {kKbit, all_words<KbitPreparation>(),
       "whether peft has prepared the 4-bit model, which leaves norms in fp32"}};
  return kKnobs;
}

bool is_of_adapters(const std::string& knob) { return knob == kDropout || knob == kKbit; }

std::vector<Rule> module_rules(const std::string& source) {
  return {{"loss_needs_kernels",
           [](const Problem&, const Candidate& c) {
             return c.loss != LossKernel::plain && !uses_liger(c) && !uses_unsloth(c);
           },
           "loss {loss} is a kernel of Liger's or Unsloth's, and the modules are torch's",
           "use --loss plain, or the knob kernels=liger or unsloth", source},
          {"knobs_of_adapters",
           [](const Problem& p, const Candidate& c) {
             return !p.model.lora.freezes() &&
                    std::any_of(c.knobs.begin(), c.knobs.end(),
                                [](const auto& set) { return is_of_adapters(set.first); });
           },
           "knobs lora_dropout and kbit are of jobs with adapters", "leave them out", source},
          {"liger_chunks_its_loss",
           [](const Problem&, const Candidate& c) {
             return uses_liger(c) && c.loss != LossKernel::chunked;
           },
           "Liger's kernels compute the loss chunk by chunk, and loss is {loss}",
           "use --loss chunked, or the knob kernels=unsloth or eager", source}};
}

KernelSet transformers_modules(DeviceKind) { return KernelSet::transformers; }

bool autocasts(const Candidate& candidate) {
  return knob_value(candidate, module_knobs(), kAutocast) == kOn;
}

bool uses_liger(const Candidate& candidate) {
  return chosen<ModuleKernels>(candidate, kKernels) == ModuleKernels::liger;
}

bool uses_unsloth(const Candidate& candidate) {
  return chosen<ModuleKernels>(candidate, kKernels) == ModuleKernels::unsloth;
}

/// Sources: transformers modeling_utils.py, gradient_checkpointing_enable @ v4.48.1 and
/// _activation_checkpointing_enable @ v5.23.0.
bool checkpoints_reentrantly(const Candidate& candidate) {
  return chosen<TransformersVersion>(candidate, kVersion) != TransformersVersion::v5;
}

HfModules modules_of(const Problem& problem, const Candidate& candidate, const ModuleTypes& types) {
  const auto version = chosen<TransformersVersion>(candidate, kVersion);
  const auto kernels = chosen<ModuleKernels>(candidate, kKernels);
  const std::string& family = problem.model.family;
  HfModules m;
  m.loss = loss_style(version, family);
  m.fused_norms = m.fused_rotary = kernels != ModuleKernels::eager;
  m.fused_swiglu = kernels == ModuleKernels::liger;
  m.repeats_kv = version == TransformersVersion::v4_45 && among(kRepeating, family);
  m.fused_qkv = among(kFusedQkv, family);
  m.returns_cache = family == "gpt_bigcode" && version != TransformersVersion::v5;
  m.reentrant = checkpoints_reentrantly(candidate);
  m.python_gelu = among(kGeluNew, family);
  m.on_accelerator = problem.cluster.device.kind == DeviceKind::cuda;
  m.quantised = problem.workload.job == Job::qlora;
  m.adapter_dropout = knob_value(candidate, module_knobs(), kDropout) == kOn;
  set_types(m, problem, types);
  if (chosen<KbitPreparation>(candidate, kKbit) == KbitPreparation::peft) {
    m.norms = m.stream = DType::fp32;
  }
  return m;
}

}  // namespace planwright::targets
