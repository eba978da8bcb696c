#include "launcher/targets/builtin/rules.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "estimator/spec/error.h"
#include "estimator/spec/model_features.h"
#include "estimator/spec/recompute_rules.h"
#include "launcher/targets/shared/dimensions.h"

namespace planwright::targets::builtin {
namespace {

constexpr const char* kRuntime = "docs/runtime.md";

/// The largest head that the flash kernels train. Source: pytorch/pytorch
/// aten/src/ATen/native/transformers/cuda/sdp_utils.cpp, check_head_dim_size_flash, v2.11.0
constexpr std::int64_t kFlashHeadDim = 256;
constexpr std::int64_t kFlashHeadDimStep = 8;

std::optional<std::int64_t> positive_number(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && value > 0 ? std::optional(value) : std::nullopt;
}

/// Its value, or null at its default.
const std::string* knob(const Candidate& candidate, const char* name) {
  const auto found = std::find_if(candidate.knobs.begin(), candidate.knobs.end(),
                                  [&](const auto& each) { return each.first == name; });
  return found == candidate.knobs.end() ? nullptr : &found->second;
}

bool is_flash(const Candidate& c) { return c.attention == AttentionKernel::flash; }

bool on_cuda(const Problem& problem) { return problem.cluster.device.kind == DeviceKind::cuda; }

std::vector<Rule> tensor_rules() {
  return {
      tp_divides_heads(kRuntime),
      {"tp_divides_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.kv_heads % c.tp != 0; });
       },
       "tp {tp} does not divide the model's {kv_heads} key/value heads",
       "use a --tp that divides {kv_heads}", kRuntime},
      {"tp_divides_ffn",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.ffn % c.tp != 0; });
       },
       "tp {tp} does not divide the width of the model's MLP", "use a smaller --tp", kRuntime},
      {"sp_needs_tp", [](const Problem&, const Candidate& c) { return c.sp && c.tp == 1; },
       "sequence parallelism divides what tensor ranks share, and tp is 1",
       "use --sp off, or a --tp above 1", kRuntime},
      {"sp_divides_sequence",
       [](const Problem& p, const Candidate& c) { return c.sp && p.workload.seq % c.tp != 0; },
       "with sequence parallelism tp {tp} must divide the sequence of {seq}",
       "use a --seq that is a multiple of {tp}, or --sp off", kRuntime},
  };
}

std::int64_t blocks_of(const std::vector<StagePlan>& stages) {
  std::int64_t sum = 0;
  for (const StagePlan& stage : stages) sum += stage.blocks;
  return sum;
}

std::vector<Rule> pipeline_rules() {
  return {
      {"pp_within_layers",
       [](const Problem& p, const Candidate& c) { return c.pp > p.model.layers(); },
       "pp {pp} is more stages than the model's {layers} blocks", "use a --pp of at most {layers}",
       kRuntime},
      {"stages_hold_the_model",
       [](const Problem& p, const Candidate& c) {
         if (c.stages.empty()) return false;
         const bool empty = std::any_of(c.stages.begin(), c.stages.end(),
                                        [](const StagePlan& stage) { return stage.blocks < 1; });
         return empty || static_cast<int>(c.stages.size()) != c.pp ||
                blocks_of(c.stages) != p.model.layers();
       },
       "the plan's stages do not hold the model's {layers} blocks in {pp} stages of at least one",
       "give {pp} stages whose blocks sum to {layers}, or leave them out", kRuntime},
      {"stages_alike",
       [](const Problem&, const Candidate& c) {
         return std::any_of(c.stages.begin(), c.stages.end(), [&](const StagePlan& stage) {
           return !(stage.recompute == c.recompute && stage.offload == c.offload);
         });
       },
       "the built-in runtime recomputes and offloads alike on every stage",
       "let the stages differ in their blocks only", kRuntime},
      {"schedule_needs_stages",
       [](const Problem&, const Candidate& c) {
         return c.pp == 1 && c.schedule != Schedule::one_f_one_b;
       },
       "with one stage there is nothing to schedule", "use --schedule 1f1b, or a --pp above 1",
       kRuntime},
  };
}

std::vector<Rule> data_rules() {
  return {
      {"hsdp_divides_dp", [](const Problem&, const Candidate& c) { return c.dp % c.hsdp != 0; },
       "hsdp {hsdp} does not divide dp {dp}", "use an --hsdp that divides {dp}", kRuntime},
      {"hsdp_leaves_shards",
       [](const Problem&, const Candidate& c) {
         return c.hsdp > 1 && (c.zero == 0 || c.hsdp == c.dp);
       },
       "hsdp {hsdp} replicates shards, and there are none to replicate",
       "use an --hsdp below dp {dp} with --zero 1, 2 or 3", kRuntime},
  };
}

std::vector<Rule> dropout_rules() {
  return {
      {"dropout_on_cpus",
       [](const Problem& p, const Candidate&) {
         return on_cuda(p) && (p.workload.hidden_dropout > 0 || p.workload.attention_dropout > 0);
       },
       "the built-in runtime has dropout on CPUs only",
       "leave --hidden-dropout and --attention-dropout out", kRuntime},
      {"flash_without_dropout",
       [](const Problem& p, const Candidate& c) {
         return is_flash(c) && p.workload.attention_dropout > 0;
       },
       "the built-in flash attention drops no weights",
       "use --attention eager, or leave --attention-dropout out", kRuntime},
      {"dropout_of_each_half",
       [](const Problem& p, const Candidate&) {
         return p.workload.hidden_dropout > 0 && p.model.any_block([](const BlockSpec& block) {
           return block.residual != Residual::sequential;
         });
       },
       "the model's blocks add attention and MLP at once, and the built-in runtime drops of each "
       "alone",
       "leave --hidden-dropout out", kRuntime},
  };
}

std::vector<Rule> loss_rules() {
  return {{"fused_saves_upcast",
           [](const Problem& p, const Candidate& c) {
             const DType compute = p.workload.recipe.compute;
             return c.loss == LossKernel::fused && compute == accumulation_type(compute);
           },
           "the fused loss saves a wider copy of the logits, and with {precision} there is none",
           "use --loss plain, which is the same here, or chunked", kRuntime}};
}

std::vector<Rule> workload_rules() {
  return {
      {"trains",
       [](const Problem& p, const Candidate&) { return p.workload.job == Job::inference; },
       "the built-in runtime trains, and the job is inference",
       "use --job pretrain, finetune or lora; an inference is for the verb estimate, under any "
       "target",
       kRuntime},
      {"frozen_as_stored",
       [](const Problem& p, const Candidate&) { return p.workload.job == Job::qlora; },
       "the built-in runtime quantises no frozen weights", "use --job lora", kRuntime},
      {"known_optimizer",
       [](const Problem& p, const Candidate&) {
         return p.workload.optimizer == OptimizerKind::adam8bit ||
                p.workload.optimizer == OptimizerKind::paged_adam8bit;
       },
       "the built-in runtime has no optimizer {optimizer}",
       "use --optimizer adamw, sgd, lion or adafactor", kRuntime},
      {"adafactor_whole_tensors",
       [](const Problem& p, const Candidate& c) {
         return p.workload.optimizer == OptimizerKind::adafactor && (c.zero != 0 || c.tp != 1);
       },
       "adafactor keeps statistics of whole rows and columns, and zero {zero} with tp {tp} gives a "
       "rank less than whole tensors",
       "use zero 0 and tp 1, or another --optimizer", kRuntime},
      {"adafactor_on_cpus",
       [](const Problem& p, const Candidate&) {
         return on_cuda(p) && p.workload.optimizer == OptimizerKind::adafactor;
       },
       "the built-in runtime has adafactor on CPUs only", "use --optimizer adamw, sgd or lion",
       kRuntime},
      {"known_precision",
       [](const Problem& p, const Candidate&) { return !recipe(p.workload.precision); },
       "the built-in runtime has no recipe for {precision}", "use --precision bf16, fp16 or fp32",
       kRuntime},
  };
}

/// What may differ from the recipe for the word; docs/runtime.md, Recipes.
std::vector<Rule> recipe_rules() {
  return {
      {"weights_as_computed",
       [](const Problem& p, const Candidate&) {
         const auto own = recipe(p.workload.precision);
         const PrecisionRecipe& r = p.workload.recipe;
         return own && (r.storage != own->storage || r.compute != own->compute);
       },
       "the built-in runtime stores weights in the type that it computes in, for {precision} that "
       "of its recipe",
       "leave storage and compute type to --precision", kRuntime},
      {"gradient_type",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         return r.gradient != r.compute && r.gradient != accumulation_type(r.compute);
       },
       "the built-in runtime has gradients in the type that it computes in or sums in, and with "
       "{precision} that is another than asked for",
       "leave --grad-dtype out, or name the type of --precision", kRuntime},
      {"state_type",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         const DType wide = accumulation_type(r.compute);
         return r.state != wide && (r.state != DType::bf16 || wide != DType::fp32);
       },
       "the built-in runtime has optimizer states in fp32 or bf16, with fp64 in fp64",
       "leave --state-dtype out, or name one of these", kRuntime},
      {"master_type",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         return r.master && *r.master != accumulation_type(r.compute);
       },
       "the built-in runtime has master weights in the type that it sums in",
       "leave the type of master weights to --master-weights on", kRuntime},
      {"fp16_has_master_weights",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         return r.compute == DType::fp16 && !r.master;
       },
       "the built-in runtime updates no fp16 weights in place: small updates would be lost",
       "leave out --master-weights off, or use --precision bf16", kRuntime},
      {"one_type_on_gpus",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         const DType updated = r.master.value_or(r.storage);
         return on_cuda(p) && (r.gradient != updated || r.state != updated);
       },
       "on GPUs the built-in optimizers take gradients, states and the weights that they update in "
       "one type",
       "use --grad-dtype and --state-dtype fp32 with --master-weights on, or bf16 with off",
       kRuntime},
  };
}

std::vector<Rule> model_rules() {
  return {
      {"flash_within_window",
       [](const Problem& p, const Candidate& c) {
         return is_flash(c) && p.model.any_block([&](const BlockSpec& block) {
           return block.sliding_window > 0 && p.workload.seq > block.sliding_window;
         });
       },
       "the built-in flash attention has no sliding window, and {seq} tokens are more than the "
       "window of {sliding_window}",
       "use --attention eager, or --seq {sliding_window} or less", kRuntime},
      {"rotary_head_is_even",
       [](const Problem& p, const Candidate&) {
         return p.model.positions == Positions::rotary &&
                p.model.any_block([](const BlockSpec& block) { return block.head_dim % 2 != 0; });
       },
       "rotary positions turn pairs of elements, and the model's head_dim is odd",
       "use a model with an even head_dim", kRuntime},
      {"flash_head_dim",
       [](const Problem& p, const Candidate& c) {
         return on_cuda(p) && is_flash(c) && p.model.any_block([](const BlockSpec& block) {
           return block.head_dim > kFlashHeadDim || block.head_dim % kFlashHeadDimStep != 0;
         });
       },
       "flash attention on GPUs takes heads of a multiple of 8 up to 256 elements",
       "use --attention eager",
       "pytorch/pytorch aten/src/ATen/native/transformers/cuda/sdp_utils.cpp @ v2.11.0"},
      {"flash_precision",
       [](const Problem& p, const Candidate& c) {
         return on_cuda(p) && is_flash(c) && bytes_of(p.workload.recipe.compute) != 2;
       },
       "flash attention on GPUs takes 16-bit types, not {precision}",
       "use --precision bf16 or fp16, or --attention eager",
       "pytorch/pytorch aten/src/ATen/native/transformers/cuda/sdp_utils.cpp @ v2.11.0"},
  };
}

}  // namespace

std::optional<PrecisionRecipe> recipe(Precision precision) {
  const auto uniform = [](DType type) {
    return PrecisionRecipe{type, type, type, std::nullopt, type};
  };
  switch (precision) {
    case Precision::fp64:
      return uniform(DType::fp64);
    case Precision::fp32:
      return uniform(DType::fp32);
    case Precision::bf16:
      return PrecisionRecipe{DType::bf16, DType::bf16, DType::fp32, DType::fp32, DType::fp32};
    case Precision::fp16:
      return PrecisionRecipe{DType::fp16, DType::fp16, DType::fp32, DType::fp32, DType::fp32};
    case Precision::fp8:
      return std::nullopt;
  }
  return std::nullopt;
}

std::int64_t bucket_elements(const Candidate& candidate) {
  const std::string* const elements = knob(candidate, kBucketKnob);
  if (elements == nullptr) return kDefaultBucketElements;
  if (const auto value = positive_number(*elements)) return *value;
  throw InputError({"candidate", kBucketKnob, *elements, "must be a positive number",
                    std::to_string(kDefaultBucketElements)});
}

bool overlaps(const Candidate& candidate) {
  const std::string* const value = knob(candidate, kOverlapKnob);
  return value == nullptr || *value == "on";
}

std::vector<Rule> rules() {
  std::vector<Rule> all;
  for (auto group : {feature_rules({}, kRuntime), tensor_rules(), pipeline_rules(), data_rules(),
                     recompute_rules(kRuntime), workload_rules(), recipe_rules(), model_rules(),
                     dropout_rules(), loss_rules()}) {
    std::move(group.begin(), group.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace planwright::targets::builtin
