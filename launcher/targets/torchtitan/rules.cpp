#include "launcher/targets/torchtitan/rules.h"

#include <algorithm>

#include "launcher/targets/shared/activations.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/version.h"
#include "launcher/targets/torchtitan/models.h"
#include "launcher/targets/torchtitan/revisions.h"

namespace planwright::targets::torchtitan {
namespace {

constexpr const char* kConfig = "pytorch/torchtitan torchtitan/config/job_config.py @ v0.2.2";
constexpr const char* kParallelDims =
    "pytorch/torchtitan torchtitan/distributed/parallel_dims.py @ v0.2.2";
constexpr const char* kPipeline =
    "pytorch/torchtitan torchtitan/distributed/pipeline_parallel.py @ v0.2.2";
constexpr const char* kParallelize =
    "pytorch/torchtitan torchtitan/models/llama3/infra/parallelize.py @ v0.2.2";
constexpr const char* kModels = "pytorch/torchtitan torchtitan/models/__init__.py @ v0.2.2";
constexpr const char* kCheckpoint =
    "pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py @ v0.2.2 and 0.3.0";
constexpr const char* kFloat8 =
    "pytorch/torchtitan torchtitan/components/quantization/float8.py and utils.py @ v0.2.2";
constexpr const char* kRegistry =
    "pytorch/torchtitan torchtitan/models/llama3/config_registry.py @ 0.3.0";
constexpr const char* kSchedules =
    "pytorch/pytorch torch/distributed/pipelining/schedules.py @ v2.11.0";
constexpr const char* kSplitBackward =
    "pytorch/pytorch torch/distributed/pipelining/_backward.py, stage_backward_input, and "
    "torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py, post_forward @ v2.11.0";

bool is_looped(Schedule schedule) {
  return schedule == Schedule::interleaved || schedule == Schedule::zero_bubble;
}

std::vector<Rule> model_rules() {
  return {
      {"model_of_a_family",
       [](const Problem& p, const Candidate&) { return !family_of(p.model).has_value(); },
       "no model folder of torchtitan that these files name (llama3, qwen3, deepseek_v3) has such "
       "blocks, or experts of these sizes",
       "", kModels},
      {"model_in_registry",
       [](const Problem& p, const Candidate&) {
         return is_python_generation(p) && family_of(p.model) && registry_function(p.model).empty();
       },
       "torchtitan 0.3 has no configuration function for a model of these sizes",
       "use target version 0.2.2, for which one is written", kRegistry},
      no_adapters(kConfig),
      {"one_head_per_matrix",
       [](const Problem& p, const Candidate& c) { return c.pp > 1 && p.model.tied_embeddings; },
       "torchtitan cannot cut a model with tied embeddings into stages: pp {pp}", "use --pp 1",
       kPipeline},
  };
}

std::vector<Rule> tensor_rules() {
  return {
      tp_divides_all_heads(kParallelize),
      {"sequence_parallel_with_tp",
       [](const Problem& p, const Candidate& c) {
         return is_python_generation(p) ? c.sp && c.tp == 1 : c.sp != (c.tp > 1);
       },
       "torchtitan shards the sequence with tp and never without it: sp {sp} at tp {tp}",
       "use --sp on with a --tp above 1, else --sp off; target version 0.3 has both", kParallelize},
      {"degrees_divide_sequence",
       [](const Problem& p, const Candidate& c) {
         return p.workload.seq % (std::int64_t{2} * c.tp * c.cp) != 0;
       },
       "a sequence of {seq} is not a multiple of 2 x tp {tp} x cp {cp}", "use a --seq that is",
       kParallelDims},
  };
}

std::vector<Rule> pipeline_rules() {
  return {
      {"schedule_fits_stages",
       [](const Problem&, const Candidate& c) {
         if (c.pp == 1) return c.vpp != 1 || c.schedule != Schedule::one_f_one_b;
         return is_looped(c.schedule) != (c.vpp > 1);
       },
       "schedule {schedule} does not go with pp {pp} and vpp {vpp}: interleaved and zb have "
       "several "
       "stages a rank, gpipe and 1f1b one",
       "use --vpp 2 with interleaved or zb, --vpp 1 with the others", kPipeline},
      {"stages_within_layers",
       [](const Problem& p, const Candidate& c) {
         return std::int64_t{c.pp} * c.vpp > p.model.layers();
       },
       "pp {pp} x vpp {vpp} stages are more than the model's {layers} layers", "use fewer stages",
       kPipeline},
      {"micro_batches_fill_stages",
       [](const Problem& p, const Candidate& c) {
         return c.pp > 1 && c.schedule == Schedule::one_f_one_b && accumulation(p, c) < c.pp;
       },
       "torch's 1F1B takes at least as many micro-batches as stages: {accumulation} for pp {pp}",
       "use a --global-batch of at least pp x dp x micro-batch, or --schedule gpipe", kSchedules},
      {"micro_batches_in_rounds",
       [](const Problem& p, const Candidate& c) {
         const std::int64_t all = accumulation(p, c);
         return c.pp > 1 && is_looped(c.schedule) &&
                all % std::max<std::int64_t>(1, all / c.pp) != 0;
       },
       "interleaved schedules take micro-batches in equal rounds of about pp {pp}",
       "use a --global-batch of a multiple of pp x dp x micro-batch", kSchedules},
      {"zb_keeps_weights",
       [](const Problem&, const Candidate& c) {
         return c.pp > 1 && c.schedule == Schedule::zero_bubble && c.zero == 3;
       },
       "with zb a stage's weights that zero {zero} has given back after a forward get no gradient",
       "use --zero 2 with zb, or --schedule interleaved", kSplitBackward},
      stages_alike(kConfig),
      stages_hold_the_model(kPipeline),
  };
}

/// As in its ParallelDims: experts are spread over the ranks that shard a stage's other weights.
std::vector<Rule> expert_rules() {
  return {
      {"experts_for_their_ranks",
       [](const Problem& p, const Candidate& c) {
         const auto& moe = p.model.runs.back().block.moe;
         return c.ep > 1 && (!moe || moe->experts % c.ep != 0);
       },
       "ep {ep} ranks do not share the model's experts evenly, or it has none",
       "use an --ep that divides its experts, or --ep 1", kParallelDims},
      {"ep_within_shards",
       [](const Problem&, const Candidate& c) {
         return c.ep > 1 && (shard_ranks(c) * c.cp * c.tp) % (c.ep * c.etp) != 0;
       },
       "ep {ep} x etp {etp} does not divide the ranks that shard a stage: dp {dp} x cp {cp} x tp "
       "{tp}, of hsdp {hsdp} replicas",
       "use an --ep that does", kParallelDims},
      {"etp_is_tp_or_one",
       [](const Problem&, const Candidate& c) {
         return c.etp != 1 && (c.ep == 1 || c.etp != c.tp);
       },
       "torchtitan has etp {etp} of tp {tp} or 1, and with ep alone", "use --etp 1 or that of tp",
       kParallelDims},
      {"experts_need_shards",
       [](const Problem&, const Candidate& c) { return c.ep > 1 && c.zero == 0; },
       "torchtitan shards what its ep {ep} ranks hold: zero {zero}", "use --zero 2 or 3",
       kParallelDims},
  };
}

std::vector<Rule> data_rules() {
  return {
      {"replicas_alone",
       [](const Problem&, const Candidate& c) {
         return c.zero == 0 && c.dp > 1 && c.tp * c.pp * c.cp > 1;
       },
       "torchtitan combines tp, pp and cp with sharded data ranks only: zero {zero}, dp {dp}",
       "use --zero 2 or 3", kParallelize},
      {"mixed_precision_needs_shards",
       [](const Problem& p, const Candidate& c) {
         const PrecisionRecipe& recipe = p.workload.recipe;
         return updated_type(recipe) != recipe.compute && c.tp * c.pp > 1 &&
                shard_ranks(c) * c.cp == 1;
       },
       "torchtitan computes in {precision} where FSDP shards, and tp {tp}, pp {pp} leave it no "
       "ranks: dp {dp}, cp {cp}",
       "use a dp or cp above 1 in each replica, or --precision fp32", kConfig},
      {"stored_type",
       [](const Problem& p, const Candidate&) {
         const DType type = updated_type(p.workload.recipe);
         return type != DType::fp32 && type != DType::bf16;
       },
       "torchtitan stores weights in fp32 or bf16", "use --precision bf16 or fp32", kConfig},
  };
}

bool is_fp8(const Problem& p) { return p.workload.precision == Precision::fp8; }

/// Matrices of other sizes stay as they are.
bool fits_float8(const BlockSpec& b, std::int64_t hidden) {
  constexpr std::int64_t kMultiple = 16;
  for (const std::int64_t width : {hidden, b.heads * b.head_dim, b.kv_heads * b.head_dim, b.ffn}) {
    if (width % kMultiple != 0) return false;
  }
  return true;
}

std::vector<Rule> float8_rules() {
  return {
      {"float8_knob_of_float8",
       [](const Problem& p, const Candidate& c) {
         return !is_fp8(p) && std::any_of(c.knobs.begin(), c.knobs.end(),
                                          [](const auto& set) { return set.first == kFloat8Knob; });
       },
       "float8_recipe is of products in 8 bits, and precision {precision} has none",
       "use --precision fp8, or leave the knob out", kFloat8},
      {"float8_on_device",
       [](const Problem& p, const Candidate&) {
         const DeviceSpec& device = p.cluster.device;
         return is_fp8(p) && (device.kind != DeviceKind::cuda || (device.bf16 && !device.fp8));
       },
       "{device} has no products in 8 bits, which precision {precision} asks for: torchtitan "
       "converts linear layers from compute capability 8.9 on",
       "use --precision bf16, or a device of Ada, Hopper or Blackwell", kFloat8},
      {"float8_widths",
       [](const Problem& p, const Candidate&) {
         return is_fp8(p) && p.model.any_block([&](const BlockSpec& block) {
           return !fits_float8(block, p.model.hidden);
         });
       },
       "torchtitan leaves linear layers in 16 bits whose widths are no multiples of 16",
       "use --precision bf16", kFloat8},
      {"float8_in_files",
       [](const Problem& p, const Candidate&) { return is_fp8(p) && is_python_generation(p); },
       "the files of torchtitan 0.3 have no words for precision {precision}",
       "use target version 0.2.2, or --precision bf16", kFloat8},
  };
}

/// Of 0.3 there are only whole blocks and single operators.
Rule recompute_of_generation() {
  return {"recompute_of_version",
          [](const Problem& p, const Candidate& c) {
            return is_python_generation(p) && c.recompute.kind == RecomputeKind::alternate;
          },
          "torchtitan 0.3 has no words for recompute {recompute}",
          "use --recompute none, full or op, or target version 0.2.2", kCheckpoint};
}

/// Of 0.3 the chosen model's configuration says what is compiled.
Rule compiled_in_files() {
  return {"compile_in_files",
          [](const Problem& p, const Candidate& c) {
            return is_python_generation(p) && compiled(c) != Compiled::nothing;
          },
          "the files of torchtitan 0.3 have no words for the knob compile",
          "leave it off, or use target version 0.2.2", kRegistry};
}

}  // namespace

bool is_python_generation(const Problem& problem) {
  return target_version(problem) >= Version{0, 3};
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs = [] {
    std::vector<Knob> knobs{
        {kFloat8Knob,
         {"tensorwise", "rowwise"},
         "what scales products in 8 bits have, where --precision fp8 asks for them"}};
    knobs.insert(knobs.end(), revision_knobs().begin(), revision_knobs().end());
    return knobs;
  }();
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      trains_only(kConfig),
      no_zero_one(kParallelize),
      replicas_divide_ranks(kParallelDims),
      recompute_among(
          {RecomputeKind::none, RecomputeKind::full, RecomputeKind::op, RecomputeKind::alternate},
          kCheckpoint),
      recompute_of_generation(),
      compiled_in_files(),
      offload_of_all_states(kConfig),
      no_activation_offload("torchtitan's configuration has no offload of activations", kConfig),
      precision_among({Precision::bf16, Precision::fp32, Precision::fp8}, kConfig),
      optimizer_among({OptimizerKind::adamw}, kConfig),
      known_knobs(emitted_knobs(), kConfig),
  };
  for (auto& group : {model_rules(), tensor_rules(), pipeline_rules(), expert_rules(), data_rules(),
                      float8_rules()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace planwright::targets::torchtitan
