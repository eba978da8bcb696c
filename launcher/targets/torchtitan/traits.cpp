#include "launcher/targets/torchtitan/traits.h"

#include "estimator/spec/axis_values.h"
#include "estimator/spec/model_features.h"
#include "estimator/spec/recompute_rules.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"
#include "launcher/targets/torchtitan/emit.h"
#include "launcher/targets/torchtitan/log.h"
#include "launcher/targets/torchtitan/models.h"
#include "launcher/targets/torchtitan/revisions.h"
#include "launcher/targets/torchtitan/rules.h"

namespace planwright::targets::torchtitan {
namespace {

constexpr const char* kModel =
    "pytorch/torchtitan torchtitan/models/llama3/model/model.py @ v0.2.2";
constexpr const char* kCheckpoint =
    "pytorch/torchtitan torchtitan/distributed/activation_checkpoint.py @ v0.2.2";

/// Embedding, each block, and norm with head are units, of which the last is not resharded after
/// its forward, and every backward reduces: source: torchtitan/models/llama3/infra/
/// parallelize.py @ v0.2.2, apply_fsdp and apply_ddp.
constexpr TorchUse kUse{.fused_adamw = has_fused_adamw, .keeps_head = true, .torch_modules = true};

bool on_gpus(const Problem& p) { return p.cluster.device.kind == DeviceKind::cuda; }

KernelSet torch_on_gpus(DeviceKind kind) {
  return kind == DeviceKind::cuda ? KernelSet::torch_modules : KernelSet::composed;
}

/// Where FSDP does not shard, there is autocast. Source: distributed/utils.py, maybe_enable_amp.
HfModules modules(const Problem& problem, const Candidate& c) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  HfModules m;
  m.autocast = c.zero == 0 && recipe.compute != updated_type(recipe);
  m.weights = m.norms = m.stream = c.zero == 0 ? updated_type(recipe) : recipe.compute;
  m.complex_rotary = family_of(problem.model) != Family::qwen3;
  m.on_accelerator = on_gpus(problem);
  m.held_logits = holds_logits(c);
  m.composed_norms = composes_norms(c);
  m.weighed_rows = weighs_rows(c);
  m.keeps_exchanged = keeps_exchanged(c);
  m.compiled_blocks = compiles_blocks(problem, c);
  m.compiled_loss = compiles_loss(problem, c);
  return m;
}

/// Once embedding and head were parts of the unit that is the whole model, which is not resharded
/// after its forward.
Sharding sharding(const Problem& problem, const Candidate& c) {
  Sharding s = torch_sharding(kUse, problem, c);
  s.joins_outer_units = s.copies_out && s.gathering == Gathering::each_use && joins_outer_units(c);
  if (s.joins_outer_units) s.keeps_head = false;  // the whole unit stays
  s.streams_apart = on_gpus(problem) && s.by_unit;
  return s;
}

/// A pipeline reduces at the end of a step: until then the stream that it reduces on has room for
/// what it leaves.
Holding idle_gradients() {
  return {.account = Account::fragmentation,
          .of = HoldingOf::trained,
          .bytes_each = [](const PrecisionRecipe& r) { return bytes_of(updated_type(r)); },
          .sharded_by = [](const Candidate&) { return ShardedBy::each_row; },
          .to = Phase::backward,
          .when = [](const Problem& p,
                     const Candidate& c) { return on_gpus(p) && c.pp > 1 && c.zero >= 2; },
          .source =
              "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, "
              "foreach_reduce, and c10/cuda/CUDACachingAllocator.cpp @ v2.11.0"};
}

/// Products in 8 bits change nothing of what is kept in other types.
std::optional<PrecisionRecipe> recipe(Precision precision) {
  switch (precision) {
    case Precision::fp8:
      return torch_recipe(Precision::bf16);
    case Precision::bf16:
    case Precision::fp32:
      return torch_recipe(precision);
    default:
      return std::nullopt;
  }
}

/// Stand-ins for blocks make nothing of single operators.
Rule estimable_operators() {
  return {"estimates_recompute",
          [](const Problem& p, const Candidate& c) {
            return c.recompute.kind == RecomputeKind::op &&
                   torch_on_gpus(p.cluster.device.kind) != KernelSet::torch_modules;
          },
          "this version cannot estimate recompute {recompute} on a {device}",
          "use --recompute full", "estimator/block_script.cpp"};
}

/// Blocks with experts or over parts of a sequence that estimator/torch_block knows.
std::vector<Rule> estimable_blocks() {
  const auto known = [](const Problem& p) {
    return torch_on_gpus(p.cluster.device.kind) == KernelSet::torch_modules;
  };
  return {{"estimates_block_kinds",
           [=](const Problem& p, const Candidate& c) {
             return !known(p) && (p.model.has_experts() || c.cp > 1);
           },
           "this version cannot estimate experts or cp {cp} for target {target} on a {device}",
           "use a dense model and --cp 1, or GPUs", "estimator/torch_block.cpp"},
          {"estimates_spread_experts",
           [=](const Problem& p, const Candidate& c) {
             return p.model.has_experts() && (c.tp > 1 || c.etp > 1);
           },
           "this version cannot estimate experts over tp {tp} and etp {etp} for target {target}",
           "use --tp 1 --etp 1, with --ep", "estimator/torch_experts.cpp"},
          {"estimates_ring_recompute",
           [](const Problem&, const Candidate& c) {
             return c.cp > 1 && c.recompute.kind == RecomputeKind::op;
           },
           "this version cannot estimate recompute {recompute} with cp {cp}",
           "use --recompute full or none", "estimator/torch_ring.cpp"},
          {"estimates_expert_offload",
           [](const Problem&, const Candidate& c) { return c.ep > 1 && c.offload != Offload{}; },
           "this version cannot estimate offload {offload} of experts over ep {ep} ranks",
           "use --offload none", "estimator/holdings.cpp"}};
}

bool splits_backward(const Candidate& c) { return c.pp > 1 && c.schedule == Schedule::zero_bubble; }

std::vector<Rule> estimable_stages() {
  return {{"estimates_virtual_stages",
           [](const Problem& p, const Candidate& c) {
             return c.vpp > 1 && torch_on_gpus(p.cluster.device.kind) != KernelSet::torch_modules;
           },
           "this version cannot estimate vpp {vpp} stages a rank on a {device}",
           "use --vpp 1 with --schedule 1f1b or gpipe", "estimator/stage_script.cpp"},
          {"estimates_split_recompute",
           [](const Problem&, const Candidate& c) {
             return splits_backward(c) && c.recompute != Recompute{};
           },
           "with schedule zb each weight's gradient makes a block with recompute {recompute} "
           "again, and keeps what it made: this version cannot estimate that",
           "use --recompute none with zb, or --schedule interleaved",
           "pytorch/pytorch torch/utils/checkpoint.py, _checkpoint_hook, and "
           "torch/distributed/pipelining/_backward.py, stage_backward_weight @ v2.11.0"}};
}

/// As complex numbers of fp32.
Holding rotary_table() {
  return {.account = Account::parameters,
          .of = HoldingOf::rope_table,
          .bytes_each = [](const PrecisionRecipe&) { return bytes_of(DType::fp32); },
          .source = kModel};
}

TargetTraits make_traits() {
  TargetTraits traits = stand_in_traits("torchtitan", "0.2.2");
  traits.holdings = torch_holdings(kUse);
  traits.holdings.push_back(rotary_table());
  traits.holdings.push_back(idle_gradients());
  traits.rules = joined({emit_rules(),
                         estimate_rules({ModelFeature::experts, ModelFeature::latent_attention},
                                        "estimator/torch_block.cpp"),
                         estimable_blocks(),
                         recompute_rules(kCheckpoint),
                         estimable_offload(),
                         estimable_stages(),
                         {estimable_types(recipe, false), estimable_operators()}});
  traits.axes.tp = traits.axes.pp = traits.axes.hsdp = usual_degrees();
  traits.axes.cp = traits.axes.ep = traits.axes.etp = usual_degrees();
  traits.axes.zero = {0, 2, 3};
  traits.axes.offload = offloads_of_all_states();
  traits.axes.sp = {false, true};
  traits.axes.sp_with_tp = true;  // models/llama3/infra/parallelize.py, apply_tp @ v0.2.2
  traits.axes.vpp = {1, 2, 4};
  traits.axes.schedule = {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                          Schedule::zero_bubble};
  traits.axes.recompute.push_back({RecomputeKind::op, 0, {}});
  for (const int k : {2, 4}) traits.axes.recompute.push_back({RecomputeKind::alternate, k, {}});
  traits.axes.attention = {AttentionKernel::flash};
  traits.recipe = recipe;
  traits.knobs = emitted_knobs();
  traits.kernels = torch_on_gpus;
  traits.modules = modules;
  traits.bucket_elements = [](const Candidate&) { return ddp_bucket_elements(100); };
  traits.sharding = sharding;
  return traits;
}

}  // namespace

const TargetTraits& traits() {
  static const TargetTraits kTraits = make_traits();
  return kTraits;
}

launcher::Target target() {
  return {.traits = traits(), .emit = emit, .has_script = true, .logs = {log_format()}};
}

}  // namespace planwright::targets::torchtitan
