#include "launcher/targets/megatron/rules.h"

#include <algorithm>

#include "estimator/spec/model_part.h"
#include "launcher/targets/megatron/fp8_rules.h"
#include "launcher/targets/megatron/model_rules.h"
#include "launcher/targets/megatron/recompute_rules.h"
#include "launcher/targets/megatron/versions.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kArguments =
    "NVIDIA/Megatron-LM megatron/training/arguments.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kConfig =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kLayers =
    "NVIDIA/Megatron-LM megatron/core/tensor_parallel/layers.py @ core_v0.14.0";
constexpr const char* kMappings =
    "NVIDIA/Megatron-LM megatron/core/tensor_parallel/mappings.py @ core_v0.14.0";
constexpr const char* kSchedules =
    "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py @ core_v0.14.0";
constexpr const char* kGroups = "NVIDIA/Megatron-LM megatron/core/parallel_state.py @ core_v0.14.0";
constexpr const char* kOptimizer =
    "NVIDIA/Megatron-LM megatron/core/optimizer/optimizer_config.py @ core_v0.14.0";
constexpr const char* kFsdp =
    "NVIDIA/Megatron-LM docs/user-guide/features/custom_fsdp.md @ core_v0.16.0";
constexpr const char* kModuleOffload =
    "NVIDIA/Megatron-LM megatron/core/pipeline_parallel/fine_grained_activation_offload.py @ "
    "core_v0.16.0";
constexpr const char* kMoe =
    "NVIDIA/Megatron-LM megatron/core/transformer/moe/moe_layer.py @ core_v0.14.0";
constexpr const char* kAttention =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/attention/dot_product_attention/utils.py "
    "@ v2.11";
bool divides_widths(const BlockSpec& block, const Candidate& c) {
  if (!block.moe) return block.ffn % c.tp == 0;
  return block.moe->ffn % c.etp == 0 && block.moe->shared_ffn % c.tp == 0;
}

std::vector<Rule> tensor_rules() {
  return {
      tp_divides_heads(kConfig),
      {"tp_divides_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) {
           const bool copies = replicates_kv_heads(p) && c.tp % b.kv_heads == 0;
           return b.kv_heads % c.tp != 0 && !copies;
         });
       },
       "tp {tp} does not divide the model's {kv_heads} key/value heads, which Megatron Core copies "
       "to more ranks from 0.16 on",
       "use a --tp that divides {kv_heads}", kConfig},
      {"tp_divides_widths",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return !divides_widths(b, c); });
       },
       "tp {tp}, or of experts etp {etp}, does not divide the width of the model's MLPs",
       "use a smaller --tp", kLayers},
      {"sp_needs_tp", [](const Problem&, const Candidate& c) { return c.sp && c.tp == 1; },
       "Megatron-LM switches sequence parallelism off without tensor ranks, and tp is 1",
       "use --sp off, or a --tp above 1", kArguments},
      {"sp_divides_sequence",
       [](const Problem& p, const Candidate& c) {
         return c.sp && p.workload.seq % (std::int64_t{c.cp} * c.tp) != 0;
       },
       "with sequence parallelism cp {cp} x tp {tp} must divide the sequence of {seq}",
       "use a --seq that is a multiple, or --sp off", kMappings},
  };
}

std::vector<Rule> pipeline_rules() {
  return {
      {"stages_within_layers",
       [](const Problem& p, const Candidate& c) {
         return std::int64_t{c.pp} * c.vpp > p.model.layers();
       },
       "pp {pp} x vpp {vpp} stages are more than the model's {layers} blocks", "use fewer stages",
       kConfig},
      {"schedule_fits_stages",
       [](const Problem&, const Candidate& c) {
         if (c.vpp > 1) return c.pp == 1 || c.schedule != Schedule::interleaved;
         return c.schedule != Schedule::one_f_one_b;
       },
       "schedule {schedule} does not go with pp {pp} and vpp {vpp}: Megatron Core runs 1f1b, and "
       "interleaved where a rank has several stages",
       "use --vpp 2 --schedule interleaved with a --pp above 1, or --vpp 1 --schedule 1f1b",
       kSchedules},
      {"virtual_stages_equal",
       [](const Problem& p, const Candidate& c) {
         return c.vpp > 1 && p.model.layers() % (std::int64_t{c.pp} * c.vpp) != 0;
       },
       "pp {pp} x vpp {vpp} virtual stages do not divide the model's {layers} blocks",
       "use degrees whose product divides {layers}", kArguments},
      {"micro_batches_in_rounds",
       [](const Problem& p, const Candidate& c) {
         return c.vpp > 1 && accumulation(p, c) % c.pp != 0;
       },
       "interleaved stages take micro-batches in rounds of pp {pp}, and there are {accumulation}",
       "use a --global-batch that is a multiple of pp x dp x micro-batch", kSchedules},
      stages_alike(kArguments),
      stages_hold_the_model(kArguments),
  };
}

std::vector<Rule> sequence_rules() {
  return {
      {"cp_divides_sequence",
       [](const Problem& p, const Candidate& c) {
         return c.cp > 1 && p.workload.seq % (std::int64_t{2} * c.cp) != 0;
       },
       "a sequence of {seq} is not a multiple of 2 x cp {cp}", "use a --seq that is", kArguments},
      {"cp_needs_flash",
       [](const Problem&, const Candidate& c) {
         return c.cp > 1 && c.attention != AttentionKernel::flash;
       },
       "Transformer Engine has no eager attention over cp {cp} ranks", "use --attention flash",
       kAttention},
      {"flash_of_16_bits",
       [](const Problem& p, const Candidate& c) {
         return c.attention == AttentionKernel::flash && bytes_of(p.workload.recipe.compute) != 2;
       },
       "Transformer Engine's flash attention takes 16-bit types, not {precision}",
       "use --precision bf16 or fp16, or --attention eager", kAttention},
  };
}

std::vector<Rule> expert_rules() {
  return {
      {"ranks_need_experts",
       [](const Problem& p, const Candidate& c) {
         return (c.ep > 1 || c.etp > 1) && !p.model.has_experts();
       },
       "ep {ep} and etp {etp} divide experts, and the model has none", "use --ep 1 --etp 1",
       kConfig},
      {"ep_divides_experts",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block(
             [&](const BlockSpec& b) { return b.moe && b.moe->experts % c.ep != 0; });
       },
       "ep {ep} does not divide the model's experts", "use an --ep that does", kArguments},
      {"expert_ranks_fit",
       [](const Problem&, const Candidate& c) {
         return (std::int64_t{c.tp} * c.cp * c.dp) % (std::int64_t{c.ep} * c.etp) != 0;
       },
       "ep {ep} x etp {etp} does not divide the ranks of a stage: tp {tp} x cp {cp} x dp {dp}",
       "use degrees whose product does", kGroups},
      {"experts_need_sp",
       [](const Problem& p, const Candidate& c) {
         return p.model.has_experts() && c.tp > 1 && !c.sp;
       },
       "Megatron Core trains experts on tp {tp} ranks with sequence parallelism only",
       "use --sp on, or --tp 1", kMoe},
      {"experts_of_wide_range",
       [](const Problem& p, const Candidate& c) {
         return c.ep > 1 && p.workload.recipe.compute == DType::fp16;
       },
       "Megatron-LM has no expert ranks with fp16: ep {ep}", "use --precision bf16, or --ep 1",
       kArguments},
  };
}

/// Megatron-FSDP, as far as these files have it.
std::vector<Rule> fsdp_rules() {
  return {
      {"writes_fsdp_stages",
       [](const Problem&, const Candidate& c) { return is_fsdp(c) && c.pp > 1; },
       "these files have Megatron-FSDP, which is zero 2 and 3, for one stage: pp {pp}",
       "use --pp 1, or --zero 1", kFsdp},
      {"writes_fsdp_types",
       [](const Problem& p, const Candidate& c) {
         const Precision precision = p.workload.precision;
         return is_fsdp(c) && precision != Precision::bf16 && precision != Precision::fp16;
       },
       "these files have Megatron-FSDP, which is zero 2 and 3, for weights of 16 bits: precision "
       "{precision}",
       "use --precision bf16, or --zero 1", kFsdp},
      {"writes_fsdp_offload",
       [](const Problem&, const Candidate& c) { return is_fsdp(c) && c.offload != Offload{}; },
       "these files have Megatron-FSDP, which is zero 2 and 3, without offload {offload}",
       "use --offload none, or --zero 1", kFsdp},
  };
}

std::vector<Rule> data_rules() {
  return {
      {"replicas_of_shards",
       [](const Problem&, const Candidate& c) {
         const int ranks = c.dp * c.cp;
         return c.hsdp > 1 && (c.zero != 1 || ranks % c.hsdp != 0 || ranks == c.hsdp);
       },
       "hsdp {hsdp} replicas of sharded states do not come out of dp {dp} x cp {cp} at zero {zero}",
       "use an --hsdp that divides the ranks and is smaller, with --zero 1", kGroups},
  };
}

bool is_for_later_core(const Candidate& c) {
  return knob_value(c, emitted_knobs(), kCoreKnob) != "0.14";
}

std::vector<Rule> offload_rules() {
  return {
      {"offload_in_files",
       [](const Problem&, const Candidate& c) {
         return c.offload.params || c.offload.to != OffloadTo::cpu;
       },
       "these files offload the optimizer's states and activations to the host and nothing else: "
       "offload {offload} to {offload_to}",
       "use --offload optimizer, activations or none", kArguments},
      {"offload_of_version",
       [](const Problem& p, const Candidate& c) {
         return c.offload.activations && !offloads_modules(p) && !is_for_later_core(c);
       },
       "Megatron-LM has arguments for offload of activations from 0.16 on",
       "use the knob megatron_core=0.16, or --recompute full", kModuleOffload},
      {"offload_of_what_is_saved",
       [](const Problem&, const Candidate& c) {
         const RecomputeKind kind = c.recompute.kind;
         return c.offload.activations && kind != RecomputeKind::none &&
                kind != RecomputeKind::selective;
       },
       "Megatron Core offloads what modules save, and under recompute {recompute} they save "
       "nothing "
       "in a forward",
       "use --recompute none or selective, or --offload none", kModuleOffload},
      {"offload_needs_shards",
       [](const Problem& p, const Candidate& c) {
         return c.offload.optimizer &&
                (c.zero != 1 || p.workload.optimizer != OptimizerKind::adamw);
       },
       "Megatron-LM offloads the states of AdamW with its distributed optimizer: zero {zero}, "
       "optimizer {optimizer}",
       "use --zero 1 and --optimizer adamw, or --offload none", kOptimizer},
  };
}

std::vector<Rule> kernel_rules() {
  return {
      {"trains_on_gpus",
       [](const Problem& p, const Candidate&) { return p.cluster.device.kind != DeviceKind::cuda; },
       "Megatron-LM with Transformer Engine trains on GPUs, and the device is {device}",
       "use a --device that is one", kArguments},
      {"loss_in_files",
       [](const Problem& p, const Candidate& c) {
         return c.loss == LossKernel::chunked ||
                (c.loss == LossKernel::fused && !has_fused_loss(p));
       },
       "loss {loss} has no words in these files: Megatron-LM's is plain, or Transformer Engine's "
       "fused one, which it refuses from 0.18 on",
       "use --loss plain", kArguments},
      {"repeatable_loss",
       [](const Problem&, const Candidate& c) {
         return c.loss == LossKernel::fused && te_modules(c).deterministic;
       },
       "Megatron-LM has no fused loss with --deterministic-mode", "use --loss plain",
       "NVIDIA/Megatron-LM docs/user-guide/deterministic-training.md @ d98e8a6"},
      fp32_updates(kOptimizer),
      {"states_in_files",
       [](const Problem& p, const Candidate&) { return p.workload.recipe.state != DType::fp32; },
       "these files keep the optimizer's states in fp32", "leave out --state-dtype", kOptimizer},
      {"gradients_in_files",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& recipe = p.workload.recipe;
         return recipe.gradient != recipe.compute && recipe.gradient != DType::fp32;
       },
       "Megatron-LM sums gradients in fp32 or in the type that it computes in",
       "leave out --grad-dtype, or name fp32 or the type of --precision", kArguments},
  };
}

}  // namespace

bool is_fsdp(const Candidate& candidate) { return candidate.zero >= 2; }

bool overlaps(const Candidate& candidate) {
  return is_fsdp(candidate) || knob_value(candidate, emitted_knobs(), kOverlapKnob) == "on";
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs{
      {kOverlapKnob,
       {"on", "off"},
       "whether data ranks reduce gradients, and gather weights, beside the passes; with zero 2 "
       "and 3 always"},
      {kExchangeKnob,
       {"p2p", "a2a"},
       "how ranks that have a part of a sequence each attend to all of it"},
      {kDeterministicKnob,
       {"off", "on"},
       "whether only kernels are used whose results are the same in every run"},
      {kSumsKnob,
       {"on", "off"},
       "whether products add weights' gradients to the buffer by themselves; with zero 2 and 3 "
       "never"},
      {kDispatcherKnob,
       {"alltoall", "allgather"},
       "whether ranks of experts get the tokens for their experts, or all"},
      {kGroupsKnob, {"on", "off"}, "whether products of several experts are one kernel"},
      {kMasksKnob, {"off", "on"}, "whether attention's mask comes with each micro-batch"},
      {kCoreKnob, {"0.14", "0.16"}, "the oldest Megatron Core that the files are for"},
      {kFp8RecipeKnob,
       {"delayed", "tensorwise", "blockwise", "mxfp8"},
       "what scales products in 8 bits have, where --precision fp8 asks for them"},
      {kFp8WeightsKnob,
       {"off", "on"},
       "whether weights of such products are kept, and gathered, in 8 bits only"}};
  return kKnobs;
}

TeModules te_modules(const Candidate& candidate) {
  const auto is = [&](const char* knob, const char* value) {
    return knob_value(candidate, emitted_knobs(), knob) == value;
  };
  return {.deterministic = is(kDeterministicKnob, "on"),
          .sums_wgrad = is(kSumsKnob, "on") && !is_fsdp(candidate),
          .groups_experts = is(kGroupsKnob, "on"),
          .gathers_tokens = is(kDispatcherKnob, "allgather"),
          .gets_masks = is(kMasksKnob, "on"),
          .fp8 = from_word<Fp8Recipe>(knob_value(candidate, emitted_knobs(), kFp8RecipeKnob))
                     .value_or(Fp8Recipe::delayed),
          .fp8_weights = is(kFp8WeightsKnob, "on")};
}

/// All that the model's blocks have. Source: NVIDIA/Megatron-LM megatron/core/transformer/
/// attention.py, multi_latent_attention.py, transformer_layer.py and moe/experts.py,
/// TEGroupedMLP @ core_v0.16.0: a norm that is one kernel with a product is no module.
OffloadedModules offloaded_modules(const Problem& problem, const Candidate& candidate) {
  const bool experts = problem.model.has_experts();
  const bool grouped = experts && te_modules(candidate).groups_experts;
  return {.attn_norm = problem.model.any_block([](const BlockSpec& b) { return !!b.latent; }),
          .qkv_linear = true,
          .core_attn = true,
          .attn_proj = true,
          .mlp_norm = experts,
          .expert_fc1 = grouped,
          .moe_act = grouped};
}

Exchange exchange(const Candidate& candidate) {
  const bool ring = knob_value(candidate, emitted_knobs(), kExchangeKnob) == "p2p";
  return ring ? Exchange::ring : Exchange::all_to_all;
}

std::vector<Rule> emit_rules() {
  return joined(
      {{trains_only(kArguments), no_adapters(kArguments),
        precision_among({Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp8},
                        kArguments),
        optimizer_among({OptimizerKind::adamw, OptimizerKind::sgd}, kArguments),
        known_knobs(emitted_knobs(), kArguments)},
       kernel_rules(),
       fp8_rules(),
       model_rules(),
       tensor_rules(),
       pipeline_rules(),
       sequence_rules(),
       expert_rules(),
       data_rules(),
       fsdp_rules(),
       offload_rules(),
       recompute_rules_of_files()});
}

std::vector<Rule> estimable_layouts() {
  constexpr const char* kProgram = "estimator/te_program.h";
  return {
      {"estimates_modules_or_offload",
       [](const Problem&, const Candidate& c) {
         return c.offload.activations && !c.recompute.modules.empty();
       },
       "this version cannot estimate recompute {recompute} beside offload {offload}",
       "use --recompute selective, or --offload none", kProgram},
      {"estimates_chunks_alike",
       [](const Problem& p, const Candidate& c) { return c.vpp > 1 && p.model.runs.size() > 1; },
       "this version cannot estimate vpp {vpp} parts of a model whose blocks differ", "use --vpp 1",
       kProgram},
      {"estimates_whole_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.kv_heads % c.tp != 0; });
       },
       "this version cannot estimate key/value heads that tp {tp} ranks have copies of",
       "use a --tp that divides {kv_heads}", kProgram}};
}

}  // namespace planwright::targets::megatron
