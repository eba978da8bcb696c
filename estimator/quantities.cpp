#include "estimator/quantities.h"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "estimator/devices.h"
#include "estimator/holdings.h"
#include "estimator/messages.h"
#include "estimator/module_work.h"
#include "estimator/offload.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/spec/rank_grid.h"
#include "estimator/spec/recompute_plan.h"
#include "estimator/stage_script.h"
#include "estimator/step_program.h"
#include "estimator/step_shape.h"
#include "estimator/torch_stages.h"
#include "estimator/work.h"

namespace planwright::estimator {
namespace {

/// What a stage's peaks, work and layout depend on, and nothing else.
struct StageKey {
  int stage = 0, stages = 1;
  std::int64_t first_layer = 0, layers = 0;
  int tp = 1, vpp = 1, cp = 1, ep = 1, etp = 1, micro_batch = 1;
  bool sp = false;
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t micro_batches = 1;
  Recompute recompute;
  AttentionKernel attention = AttentionKernel::flash;
  LossKernel loss = LossKernel::plain;
  Exchange exchange = Exchange::ring;
  bool keeps_gathered = false;
  // As long as nothing comes and goes with the units, these but for `made` are as they stand here.
  Sharding sharding{};
  bool overlap = true;
  int ranks = 1;
  std::int64_t bucket_elements = 0;
  std::vector<std::int64_t> growing{};
  std::array<Bytes, kWordCount<Account>> with_gradients{};
  HfModules modules{};
  TeModules te{};
  ActivationOffload activations{};

  auto tie() const {
    return std::tie(stage, stages, first_layer, layers, tp, vpp, cp, ep, etp, micro_batch, sp,
                    schedule, micro_batches, recompute.kind, recompute.k, recompute.modules,
                    attention, loss, sharding, overlap, ranks, bucket_elements, growing,
                    with_gradients, modules, te, exchange, keeps_gathered, activations);
  }
  bool operator<(const StageKey& other) const { return tie() < other.tie(); }
};

struct LayoutKey {
  bool frozen = false;
  Experts experts = Experts::with_all;
  std::int64_t first_layer = 0, layers = 0;
  int tp = 1, ep = 1, etp = 1;
  bool sp = false, by_unit = false;
  int ranks = 1;
  std::int64_t bucket_elements = 0;
  auto operator<=>(const LayoutKey&) const = default;
};

LayoutKey layout_key(const ModelPart& part, int ranks) {
  LayoutKey key;
  key.first_layer = part.first_layer;
  key.layers = part.layers;
  key.tp = part.tp;
  key.ep = part.ep;
  key.etp = part.etp;
  key.sp = part.sp;
  key.ranks = ranks;
  return key;
}

struct StageRow {
  std::array<Peaks, kWordCount<Phase>> peaks;
  Work forward, backward, postponed, recompute, head;
  HostCopies copies;
};

void require(bool expressed, const char* axis) {
  if (!expressed) {
    throw std::logic_error(std::string("quantify: the kernel sets do not express this ") + axis);
  }
}

void require_expressed(const Candidate& c, const TargetTraits& traits, KernelSet kernels) {
  const bool spreads = kernels == KernelSet::transformer_engine;
  const bool staged = kernels == KernelSet::torch_modules;
  require(spreads || staged || c.vpp == 1, "layout");
  require(spreads || staged || (c.cp == 1 && c.ep == 1), "layout");
  require(spreads || c.etp == 1, "layout");
  require(c.tp >= 1 && c.pp >= 1 && c.hsdp >= 1 && c.dp % c.hsdp == 0, "layout");
  require(c.zero >= 0 && c.zero <= 3, "ZeRO stage");
  const bool interleaved = (spreads || staged) && c.vpp > 1 && c.schedule == Schedule::interleaved;
  const bool in_two = staged && c.vpp > 1 && c.schedule == Schedule::zero_bubble;
  require(
      interleaved || in_two || c.schedule == Schedule::gpipe || c.schedule == Schedule::one_f_one_b,
      "schedule");
  require(c.micro_batch >= 1 && c.dp >= 1, "batch");
  const bool saves = kernels == KernelSet::torch_modules;
  require(c.recompute.kind != RecomputeKind::op || saves, "recompute");
  require(c.recompute.modules.empty() || spreads, "recompute");
  require(!c.offload.activations || traits.activation_offload, "offload");
}

StageRow stage_row(const StageStep& step, KeptPrograms& programs) {
  StageRow row;
  row.peaks = stage_peaks(step, programs);
  row.copies = stage_copies(step, programs);
  const auto block = [&](std::int64_t layer) -> const BlockSpec& {
    return step.model.block(step.part.first_layer + layer);
  };
  for (std::int64_t layer = 0; layer < step.part.layers; ++layer) {
    row.forward += block_forward_work(step.shape, block(layer));
    row.backward += block_backward_work(step.shape, block(layer));
    if (step.schedule == Schedule::zero_bubble) {
      row.postponed += block_weights_work(step.shape, block(layer));
    }
  }
  for (const BackwardVisit& visit :
       backward_visits(step.recompute, step.part.layers, step.chunks)) {
    if (visit.kind == BackwardVisit::Kind::backward) continue;
    const bool output =
        visit.kind == BackwardVisit::Kind::rebuild || makes_output_again(step.shape);
    row.recompute += block_rebuild_work(step.shape, block(visit.layer), output);
  }
  if (step.shape.again != RecomputedModules{}) {
    for (std::int64_t layer = 0; layer < step.part.layers; ++layer) {
      row.recompute += modules_again_work(step.shape, block(layer));
    }
  }
  if (step.part.first) row.head += embedding_work(step.shape);
  if (step.part.last) row.head += head_work(step.shape);
  return row;
}

void add_holdings(StageQuantities& q, const Holdings& holdings, const Layouts& layouts) {
  const auto held = holdings.held_bytes(layouts);
  for (std::size_t i = 0; i < held.size(); ++i) {
    PhaseBytes& phase = q.phases[i];
    phase.tensors += held[i];
    phase.kernels += held[i];
    if (phase.product) *phase.product += held[i];
  }
  q.loaded = q.phases[static_cast<std::size_t>(Phase::load)].tensors;
  q.preallocated = q.loaded.tensors();
}

void add_peaks(StageQuantities& q, const StageRow& row, const StepShape& shape) {
  for (std::size_t i = 0; i < q.phases.size(); ++i) {
    PhaseBytes& phase = q.phases[i];
    phase = {static_cast<Phase>(i), row.peaks[i].tensors, row.peaks[i].kernels,
             row.peaks[i].product};
    // An accelerator's matrix library takes its workspace with the first product and keeps it.
    // Source: pytorch aten/src/ATen/cuda/CublasHandlePool.cpp @ v2.11.0.
    const bool resident = shape.device == DeviceKind::cuda &&
                          shape.kernels != KernelSet::transformer_engine &&
                          phase.phase != Phase::load;
    if (resident) phase.product = phase.kernels;
  }
}

/// Of micro-batches that a stage's script does not show.
void add_stage_buffers(StageQuantities& q, const Candidate& c, const StageStep& step,
                       KeptPrograms& programs) {
  if (!step.shape.torch_stages) return;
  const std::int64_t hidden =
      step.micro_batches - torch_shown(c.schedule, step.stage, c.pp, c.vpp, step.micro_batches);
  const Bytes bytes{hidden * torch_buffers(c.schedule, step.stage, c.pp, c.vpp) *
                    programs.of(step.shape).boundary().bytes};
  for (PhaseBytes& phase : q.phases) {
    if (phase.phase == Phase::load) continue;
    phase.tensors[Account::communication] += bytes;
    phase.kernels[Account::communication] += bytes;
    if (phase.product) (*phase.product)[Account::communication] += bytes;
  }
}

/// How often the optimizer goes over what belongs to one parameter. Adafactor's statistics are
/// small beside the tensors, but it reads each gradient four times (rows, columns, the update's
/// size, the update) and each weight twice (its size, the update).
struct OptimizerPasses {
  double gradients, moments, weights;
};
OptimizerPasses passes_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adafactor:
      return {4, 0, 3};
    case OptimizerKind::lion:
    case OptimizerKind::sgd:
      return {1, 2, 2};
    default:
      return {1, 4, 2};
  }
}

bool scales_loss(const PrecisionRecipe& recipe) { return recipe.compute == DType::fp16; }

/// Bytes that the optimizer reads and writes for one owned parameter; a master weight is then read
/// and stored, and with a loss scale the gradients are looked at before (read, and written back).
double optimizer_bytes_each(const Workload& workload) {
  const PrecisionRecipe& r = workload.recipe;
  const auto bytes = [](DType type) { return static_cast<double>(bytes_of(type)); };
  const OptimizerPasses passes = passes_of(workload.optimizer);
  const double stored = r.master ? bytes(*r.master) + bytes(r.storage) : 0;
  const double checked = scales_loss(r) ? 2 : 0;
  return (passes.gradients + checked) * bytes(r.gradient) + passes.moments * bytes(r.state) +
         passes.weights * bytes(r.master.value_or(r.storage)) + stored;
}

/// Source: PaLM, arXiv:2204.02311, appendix B: 6 N + 12 L H Q T per token, N the parameters that
/// the token uses. A frozen weight has no gradient, a third of the 6.
double model_flops_per_token(const ModelSpec& model, std::int64_t seq) {
  double weights = 0, attention = 0;
  for (const ParameterTensor& each : parameter_tensors(model)) {
    const std::int64_t active = each.numel() / each.experts * each.active_experts * each.uses;
    weights += (each.trained ? 6 : 4) * static_cast<double>(active);
  }
  for (const BlockRun& run : model.runs) {
    attention += static_cast<double>(run.count * run.block.heads * run.block.head_dim);
  }
  return weights + 12 * attention * static_cast<double>(seq);
}

/// What a sequence of an unknown model works like, which counts as one token: pretraining's usual
/// least. How much of a step is there once and how much with each sequence follows from it, and is
/// learned.
constexpr std::int64_t kStandInSequence = 512;

/// With the blocks of each stage, where the target has a way of its own to choose them.
Candidate with_stages(Candidate c, const ModelSpec& model, const TargetTraits& traits) {
  if (traits.stage_layers == nullptr || c.pp == 1 || !c.stages.empty()) return c;
  for (const std::int64_t blocks : traits.stage_layers(model, c.pp)) {
    c.stages.push_back({blocks, c.recompute, c.offload});
  }
  return c;
}

Problem as_it_works(Problem problem) {
  const bool unknown = problem.model.stand_in && problem.workload.seq == 1;
  if (unknown) problem.workload.seq = kStandInSequence;
  return problem;
}

}  // namespace

const PhaseBytes& largest_tensors(const StageQuantities& stage) {
  return *std::max_element(
      stage.phases.begin(), stage.phases.end(),
      [](const auto& a, const auto& b) { return a.tensors.tensors() < b.tensors.tensors(); });
}

struct QuantityTable::Rows {
  Problem problem;
  std::map<std::int64_t, Problem> by_vocab;
  TargetTraits traits;
  double flops_per_token = 0, capability = 0;
  std::map<StageKey, StageRow> stages;
  KeptPrograms programs;
  std::map<LayoutKey, FlatLayout> layouts;

  /// With the rows that the target pads the vocabulary to.
  const Problem& padded(const Candidate& c) {
    const std::int64_t vocab =
        traits.padded_vocab ? traits.padded_vocab(problem.model.vocab, c) : problem.model.vocab;
    if (vocab == problem.model.vocab) return problem;
    const auto [found, fresh] = by_vocab.try_emplace(vocab, problem);
    if (fresh) found->second.model.vocab = vocab;
    return found->second;
  }

  StepFacts facts_of(const Candidate& c) {
    StepFacts facts(padded(c), traits, c);
    facts.shape.capability = capability;
    return facts;
  }

  const FlatLayout& layout(const StepFacts& facts, const ModelPart& part, Experts experts) {
    const Candidate& c = facts.candidate;
    const bool by_unit = facts.sharding.by_unit;
    const Bucketing bucketing{by_unit ? 0 : traits.bucket_elements(c), by_unit};
    const int ranks = experts == Experts::alone ? expert_shard_ranks(c) : shard_ranks(c);
    LayoutKey key = layout_key(part, ranks);
    key.experts = experts;
    key.by_unit = by_unit;
    key.bucket_elements = bucketing.elements;
    const auto [found, fresh] = layouts.try_emplace(key);
    if (fresh) found->second = flat_layout(facts.problem.model, part, ranks, bucketing, experts);
    return found->second;
  }

  const FlatLayout& frozen(const StepFacts& facts, const ModelPart& part) {
    const int ranks = facts.sharding.shards_weights() ? shard_ranks(facts.candidate) : 1;
    LayoutKey key = layout_key(part, ranks);
    key.frozen = key.by_unit = true;
    const auto [found, fresh] = layouts.try_emplace(key);
    if (fresh) found->second = frozen_layout(facts.problem.model, part, ranks);
    return found->second;
  }

  Layouts layouts_of(const StepFacts& facts, const ModelPart& part) {
    static const FlatLayout kNone;
    const bool apart = traits.experts_apart || facts.candidate.ep > 1;
    return {layout(facts, part, apart ? Experts::left_out : Experts::with_all), frozen(facts, part),
            apart ? layout(facts, part, Experts::alone) : kNone};
  }

  /// Experts of their own ranks are gathered and reduced with their blocks.
  static void add_experts(StageStep& step, const StepFacts& facts, const FlatLayout& experts) {
    step.experts = &experts;
    const auto more = facts.holdings.growing_bytes(experts, expert_shard_ranks(facts.candidate));
    for (std::size_t unit = 0; unit < more.size(); ++unit) step.growing[unit] += more[unit];
  }

  static StageStep step_of(const StepFacts& facts, int number, const ModelPart& part,
                           const Layouts& both) {
    StageStep step = stage_step(facts, number, part, both.trained, both.frozen);
    if (step.sharding.by_unit && !both.experts.tensors.empty()) {
      add_experts(step, facts, both.experts);
    }
    return step;
  }

  const StageRow& stage(const Candidate& c, const StageStep& step, const Layouts& both) {
    StageKey key{.stage = step.stage,
                 .stages = c.pp,
                 .first_layer = step.part.first_layer,
                 .layers = step.part.layers,
                 .tp = c.tp,
                 .vpp = c.vpp,
                 .cp = c.cp,
                 .ep = c.ep,
                 .etp = c.etp,
                 .micro_batch = c.micro_batch,
                 .sp = c.sp,
                 .schedule = c.schedule,
                 .micro_batches = step.micro_batches,
                 .recompute = c.recompute,
                 .attention = c.attention,
                 .loss = c.loss,
                 .exchange = step.shape.exchange,
                 .keeps_gathered = step.shape.keeps_gathered,
                 .growing = step.growing,
                 .with_gradients = step.with_gradients.bytes,
                 .modules = step.shape.modules,
                 .te = step.shape.te,
                 .activations = step.shape.activations};
    if (step.shape.torch_stages) {
      key.micro_batches = torch_shown(c.schedule, step.stage, c.pp, c.vpp, step.micro_batches);
    } else if (c.schedule != Schedule::gpipe) {  // see stage_script.cpp: more look the same
      key.micro_batches = std::min<std::int64_t>(key.micro_batches, c.pp * (c.vpp > 1 ? 3 : 1) + 2);
    }
    key.sharding.made = step.sharding.made;
    if (step.sharding.buckets || step.sharding.gathers_units()) {
      key.sharding = step.sharding;
      key.overlap = step.overlap;
      key.ranks = both.trained.ranks;
      key.bucket_elements = step.sharding.by_unit ? 0 : traits.bucket_elements(c);
    }
    const auto [found, fresh] = stages.try_emplace(key);
    if (fresh) found->second = stage_row(step, programs);
    return found->second;
  }

  StageQuantities quantify_stage(const StepFacts& facts, int number) {
    const Candidate& c = facts.candidate;
    const Problem& problem = facts.problem;
    const ModelPart part = model_part(problem.model, c, rank_at(c, {0, 0, number}));
    const Layouts both = layouts_of(facts, part);
    const FlatLayout& flat = both.trained;
    const StageStep step = step_of(facts, number, part, both);
    const StageRow& row = stage(c, step, both);
    StageQuantities q;
    add_peaks(q, row, step.shape);
    add_holdings(q, facts.holdings, both);
    add_stage_buffers(q, c, step, programs);
    q.forward = row.forward;
    q.backward = row.backward;
    q.postponed = row.postponed;
    q.recompute = row.recompute;
    q.head = row.head;
    const auto owned = static_cast<double>(flat.shard_numel() + both.experts.shard_numel());
    const double whole = static_cast<double>(flat.numel + both.experts.numel);
    q.step.bytes = (facts.sharding.buckets ? owned : whole) *
                   static_cast<double>(bytes_of(problem.workload.recipe.gradient));
    q.step.launches = 1;  // the flat gradient is zeroed
    q.optimizer_bytes = owned * optimizer_bytes_each(problem.workload);
    q.optimizer_launches = static_cast<double>(flat.buckets.size() + both.experts.buckets.size());
    add_offload(q, {problem, c, facts.holdings, both, facts.sharding});
    add_activations(q.offload, step.shape.activations, row.copies);
    add_messages(q, {problem, c, part, step.shape, flat, both.frozen, both.experts,
                     traits.transport(problem.cluster.device.kind), facts.overlap, facts.sharding});
    return q;
  }
};

QuantityTable::QuantityTable(Problem problem, TargetTraits traits)
    : rows_(std::make_unique<Rows>()) {
  rows_->problem = as_it_works(std::move(problem));
  rows_->flops_per_token = model_flops_per_token(rows_->problem.model, rows_->problem.workload.seq);
  rows_->traits = std::move(traits);
  rows_->capability = compute_capability(rows_->problem.cluster.device);
}

QuantityTable::~QuantityTable() = default;
QuantityTable::QuantityTable(QuantityTable&&) noexcept = default;
QuantityTable& QuantityTable::operator=(QuantityTable&&) noexcept = default;
const Problem& QuantityTable::problem() const { return rows_->problem; }
const TargetTraits& QuantityTable::traits() const { return rows_->traits; }

void QuantityTable::forget_stages() { rows_->stages.clear(); }

Quantities QuantityTable::quantify(const Candidate& candidate) {
  require_expressed(candidate, rows_->traits, rows_->traits.kernels(problem().cluster.device.kind));
  const Problem& problem = rows_->problem;
  Quantities q;
  const Candidate staged = with_stages(candidate, rows_->padded(candidate).model, rows_->traits);
  const StepFacts facts = rows_->facts_of(staged);
  q.stages.reserve(static_cast<std::size_t>(candidate.pp));
  for (int stage = 0; stage < candidate.pp; ++stage) {
    q.stages.push_back(rows_->quantify_stage(facts, stage));
  }
  q.micro_batches =
      static_cast<double>(std::max<std::int64_t>(1, accumulation(problem, candidate)));
  q.chunks = candidate.vpp;
  const auto tokens = static_cast<double>(candidate.micro_batch * problem.workload.seq);
  q.tokens = tokens / candidate.cp;
  q.transport = rows_->traits.transport(problem.cluster.device.kind);
  if (rows_->traits.communicators != nullptr) {
    q.communicators = rows_->traits.communicators(problem, candidate);
  }
  q.model_flops = rows_->flops_per_token * tokens * q.micro_batches;
  q.host = fullest_host(problem, candidate, q.stages);
  return q;
}

Quantities quantify(const Problem& problem, const TargetTraits& traits,
                    const Candidate& candidate) {
  return QuantityTable(problem, traits).quantify(candidate);
}

}  // namespace planwright::estimator
