#include "estimator/quantities.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <utility>

#include "estimator/spec/factored_moments.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/step_script.h"
#include "estimator/work.h"

namespace planwright::estimator {
namespace {

/// What depends on the micro-batch and on recomputation only.
struct MicroBatchRow {
  std::array<Peaks, kWordCount<Phase>> peaks;
  Work forward, backward, recompute, head;
};

/// What depends on the ranks of the flat layout and its bucket size only.
struct LayoutRow {
  double numel = 0;
  double shard = 0;
  double buckets = 0;
  std::int64_t factors = 0;
};

std::uint64_t pair_key(std::int64_t a, std::int64_t b) {
  return static_cast<std::uint64_t>(a) << 40 | static_cast<std::uint64_t>(b);
}

MicroBatchRow micro_batch_row(const StepShape& shape, const ModelSpec& model, bool recompute) {
  MicroBatchRow row;
  row.peaks = micro_batch_peaks(shape, model, recompute);
  for (const BlockRun& run : model.runs) {
    const auto count = static_cast<double>(run.count);
    row.forward += count * block_forward_work(shape, run.block);
    row.backward += count * block_backward_work(shape, run.block);
    if (recompute) row.recompute += count * block_recompute_work(shape, run.block);
  }
  row.head = ends_work(shape, model);
  return row;
}

LayoutRow layout_row(const ModelSpec& model, int ranks, std::int64_t bucket_elements) {
  const FlatLayout layout = flat_layout(model, ranks, bucket_elements);
  return {static_cast<double>(layout.numel), static_cast<double>(layout.shard_numel()),
          static_cast<double>(layout.buckets.size()), factored_elements(layout)};
}

void require(bool expressed, const char* axis) {
  if (!expressed) {
    throw std::logic_error(std::string("quantify: the kernel sets do not express this ") + axis);
  }
}

void require_expressed(const Candidate& c) {
  require(c.tp == 1 && c.pp == 1 && c.vpp == 1 && c.cp == 1 && c.ep == 1 && c.etp == 1, "layout");
  require(c.zero == 0 || c.zero == 1, "ZeRO stage");
  require(c.hsdp == 1 && !c.sp && c.stages.empty(), "layout");
  require(c.micro_batch >= 1 && c.dp >= 1, "batch");
  require(c.recompute.kind == RecomputeKind::none || c.recompute.kind == RecomputeKind::full,
          "recompute");
  require(c.offload == Offload{}, "offload");
  require(c.attention == AttentionKernel::flash, "attention");
  require(c.loss == LossKernel::plain, "loss");
}

std::int64_t elements_of(const Holding& holding, const Problem& problem, const LayoutRow& layout,
                         const Candidate& candidate) {
  switch (holding.of) {
    case HoldingOf::flat_parameters: {
      const bool sharded =
          holding.sharded_by && holding.sharded_by(candidate) == ShardedBy::data_ranks;
      return static_cast<std::int64_t>(sharded ? layout.shard : layout.numel);
    }
    case HoldingOf::rope_table: {
      const ModelSpec& model = problem.model;
      const bool rotary = model.positions == Positions::rotary;
      return rotary ? problem.workload.seq * model.runs.front().block.head_dim : 0;
    }
    case HoldingOf::step_counters:
      return 1;
    case HoldingOf::factored_moments:
      return layout.factors;
  }
  throw std::logic_error("elements_of: unknown holding");
}

void add_holdings(Quantities& q, const Problem& problem, const TargetTraits& traits,
                  const LayoutRow& layout, const Candidate& candidate) {
  for (const Holding& holding : traits.holdings) {
    if (holding.when && !holding.when(problem, candidate)) continue;
    const Bytes bytes{elements_of(holding, problem, layout, candidate) * holding.copies *
                      holding.bytes_each(problem.workload.recipe)};
    for (PhaseBytes& phase : q.phases) {
      if (phase.phase < holding.from || holding.to < phase.phase) continue;
      phase.tensors[holding.account] += bytes;
      phase.kernels[holding.account] += bytes;
      if (phase.product) (*phase.product)[holding.account] += bytes;
    }
  }
  q.loaded = q.phases[static_cast<std::size_t>(Phase::load)].tensors;
}

void add_peaks(Quantities& q, const MicroBatchRow& row, DeviceKind device) {
  for (std::size_t i = 0; i < q.phases.size(); ++i) {
    PhaseBytes& phase = q.phases[i];
    phase = {static_cast<Phase>(i), row.peaks[i].tensors, row.peaks[i].kernels,
             row.peaks[i].product};
    // An accelerator's matrix library takes its workspace with the first product and keeps it.
    // Source: pytorch aten/src/ATen/cuda/CublasHandlePool.cpp @ v2.11.0.
    const bool resident = device == DeviceKind::cuda && phase.phase != Phase::load;
    if (resident) phase.product = phase.kernels;
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

int innermost_link(const ClusterSpec& cluster, int ranks) {
  const auto found = std::find_if(cluster.links.begin(), cluster.links.end(),
                                  [&](const Link& link) { return link.span >= ranks; });
  const auto last = static_cast<std::ptrdiff_t>(cluster.links.size()) - 1;
  return static_cast<int>(std::clamp<std::ptrdiff_t>(found - cluster.links.begin(), 0,
                                                     std::max<std::ptrdiff_t>(last, 0)));
}

/// Gradients are summed bucket by bucket; with ZeRO 1 the owners' new weights then go to everyone.
/// Over gloo a reduction is an all-reduce whatever the sharding, and a gathering is one broadcast
/// per owner (docs/runtime.md).
void add_messages(Quantities& q, const Problem& problem, const LayoutRow& layout,
                  const Candidate& c) {
  if (c.dp == 1) return;
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const int link = innermost_link(problem.cluster, c.dp);
  const bool sharded = c.zero >= 1;
  const bool ring = q.transport == Transport::nccl;
  const double gradient = layout.numel * static_cast<double>(bytes_of(recipe.gradient));
  q.messages.push_back({sharded && ring ? Collective::reduce_scatter : Collective::all_reduce,
                        layout.buckets, gradient, c.dp, link});
  if (scales_loss(recipe)) q.messages.push_back({Collective::all_reduce, 1, 4, c.dp, link});
  if (!sharded) return;
  const double weights = layout.numel * static_cast<double>(bytes_of(recipe.storage));
  q.messages.push_back({ring ? Collective::all_gather : Collective::broadcast,
                        ring ? layout.buckets : layout.buckets * c.dp, weights, c.dp, link});
}

/// Source: PaLM, arXiv:2204.02311, appendix B: 6 N + 12 L H Q T per token.
double model_flops_per_token(const ModelSpec& model, std::int64_t parameters, std::int64_t seq) {
  double attention = 0;
  for (const BlockRun& run : model.runs) {
    attention += static_cast<double>(run.count * run.block.heads * run.block.head_dim);
  }
  return 6 * static_cast<double>(parameters) + 12 * attention * static_cast<double>(seq);
}

}  // namespace

struct QuantityTable::Rows {
  Problem problem;
  TargetTraits traits;
  double flops_per_token = 0;
  std::unordered_map<std::uint64_t, MicroBatchRow> micro_batches;
  std::unordered_map<std::uint64_t, LayoutRow> layouts;

  const MicroBatchRow& micro_batch(const Candidate& candidate) {
    const bool recompute = candidate.recompute.kind == RecomputeKind::full;
    const auto [found, fresh] =
        micro_batches.try_emplace(pair_key(candidate.micro_batch, recompute ? 1 : 0));
    if (fresh) {
      found->second =
          micro_batch_row(step_shape(problem, traits, candidate), problem.model, recompute);
    }
    return found->second;
  }

  const LayoutRow& layout(const Candidate& candidate) {
    const int ranks = candidate.zero >= 1 ? candidate.dp : 1;
    const std::int64_t bucket = traits.bucket_elements(candidate);
    const auto [found, fresh] = layouts.try_emplace(pair_key(ranks, bucket));
    if (fresh) found->second = layout_row(problem.model, ranks, bucket);
    return found->second;
  }
};

QuantityTable::QuantityTable(Problem problem, TargetTraits traits)
    : rows_(std::make_unique<Rows>()) {
  rows_->flops_per_token = model_flops_per_token(
      problem.model, parameter_counts(problem.model).total, problem.workload.seq);
  rows_->problem = std::move(problem);
  rows_->traits = std::move(traits);
}

QuantityTable::~QuantityTable() = default;
QuantityTable::QuantityTable(QuantityTable&&) noexcept = default;
QuantityTable& QuantityTable::operator=(QuantityTable&&) noexcept = default;
const Problem& QuantityTable::problem() const { return rows_->problem; }
const TargetTraits& QuantityTable::traits() const { return rows_->traits; }

Quantities QuantityTable::quantify(const Candidate& candidate) {
  require_expressed(candidate);
  const Problem& problem = rows_->problem;
  const TargetTraits& traits = rows_->traits;
  const MicroBatchRow& micro = rows_->micro_batch(candidate);
  const LayoutRow& layout = rows_->layout(candidate);
  const bool sharded = candidate.zero >= 1;

  Quantities q;
  add_peaks(q, micro, problem.cluster.device.kind);
  add_holdings(q, problem, traits, layout, candidate);
  q.micro_batches = static_cast<double>(std::max<std::int64_t>(
      1, problem.workload.global_batch / (std::int64_t{candidate.dp} * candidate.micro_batch)));
  q.tokens = static_cast<double>(candidate.micro_batch * problem.workload.seq);
  q.forward = micro.forward;
  q.backward = micro.backward;
  q.recompute = micro.recompute;
  q.head = micro.head;
  q.step.bytes = layout.numel * static_cast<double>(bytes_of(problem.workload.recipe.gradient));
  q.step.launches = 1;  // the flat gradient is zeroed
  q.optimizer_bytes =
      (sharded ? layout.shard : layout.numel) * optimizer_bytes_each(problem.workload);
  q.optimizer_launches = layout.buckets;
  q.transport = traits.transport(problem.cluster.device.kind);
  add_messages(q, problem, layout, candidate);
  q.model_flops = rows_->flops_per_token * q.tokens * q.micro_batches;
  return q;
}

Quantities quantify(const Problem& problem, const TargetTraits& traits,
                    const Candidate& candidate) {
  return QuantityTable(problem, traits).quantify(candidate);
}

}  // namespace planwright::estimator
