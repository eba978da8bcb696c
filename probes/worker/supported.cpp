#include "probes/worker/supported.h"

#include <stdexcept>
#include <string>

#include "estimator/spec/model_features.h"
#include "estimator/spec/model_part.h"

namespace planwright::worker {
namespace {

void require(bool holds, const std::string& text) {
  if (!holds) throw std::invalid_argument("the worker cannot run this job: " + text);
}

void check_axes(const Candidate& c, const ProbeScope& scope, int world) {
  require(c.cp * c.ep * c.etp * c.vpp == 1, "only tp, pp and dp");
  const std::int64_t ranks = scope.kind == ScopeKind::shadow ? 1 : c.world();
  require(ranks == world,
          std::to_string(c.world()) + " ranks with " + std::to_string(world) + " processes");
  require(scope.rank >= 0 && scope.rank < c.world(), "there is no rank to play");
  require(c.zero >= 0 && c.zero <= 3, "zero " + std::to_string(c.zero));
  require(c.hsdp >= 1 && c.dp % c.hsdp == 0, "hsdp " + std::to_string(c.hsdp));
  require(c.schedule == Schedule::gpipe || c.schedule == Schedule::one_f_one_b,
          "schedule " + std::string(word(c.schedule)));
  require(c.offload == Offload{}, "offload " + offload_text(c.offload));
  require(c.recompute.kind != RecomputeKind::op && c.recompute.modules.empty(),
          "recompute " + recompute_text(c.recompute));
}

void check_shares(const ModelSpec& model, const Candidate& c, std::int64_t seq) {
  for (const BlockRun& run : model.runs) {
    const BlockSpec& block = run.block;
    require(block.heads % c.tp == 0 && block.kv_heads % c.tp == 0 && block.ffn % c.tp == 0,
            "tp " + std::to_string(c.tp) + " does not divide the block");
  }
  require(!c.sp || seq % c.tp == 0, "tp does not divide the sequence");
  for (const std::int64_t layers : stage_layers(model, c)) {
    require(layers >= 1, "a stage without a block");
  }
}

void check_recipe(const PrecisionRecipe& r) {
  const DType wide = accumulation_type(r.compute);
  const bool narrow_state = r.state == DType::bf16 && wide == DType::fp32;
  require(r.storage == r.compute && r.compute != DType::fp8, "weights of these types");
  require(r.gradient == wide || r.gradient == r.compute,
          "gradients in " + std::string(word(r.gradient)));
  require(r.state == wide || narrow_state, "optimizer states in " + std::string(word(r.state)));
  require(r.master.value_or(wide) == wide && (r.master || r.compute != DType::fp16),
          "these master weights");
}

void check_attention(const Problem& problem, AttentionKernel attention) {
  const Workload& workload = problem.workload;
  const bool eager = attention == AttentionKernel::eager;
  require(eager || workload.attention_dropout == 0, "flash attention with dropout");
  for (const BlockRun& run : problem.model.runs) {
    const std::int64_t window = run.block.sliding_window;
    require(eager || window == 0 || window >= workload.seq,
            "flash attention with a sliding window shorter than the sequence");
    require(workload.hidden_dropout == 0 || run.block.residual == Residual::sequential,
            "dropout in parallel blocks");
  }
}

void check_features(const ModelSpec& model) {
  for (std::size_t i = 0; i < kWordCount<ModelFeature>; ++i) {
    const auto feature = static_cast<ModelFeature>(i);
    require(!has_feature(model, feature), "a model with " + std::string(word(feature)));
  }
}

void check_blocks(const ModelSpec& model, std::int64_t seq) {
  for (const BlockRun& run : model.runs) {
    require(run.block.heads % run.block.kv_heads == 0, "heads are no multiple of kv_heads");
    require(model.positions == Positions::learned || run.block.head_dim % 2 == 0,
            "rotary positions with an odd head_dim");
    require(run.block.head_dim == model.runs.front().block.head_dim,
            "blocks of different head_dim");
  }
  require(model.positions == Positions::rotary || seq <= model.max_positions,
          "a sequence longer than the learned positions");
}

}  // namespace

void check_supported(const probes::TrainJob& job, int world) {
  const Workload& workload = job.problem.workload;
  check_axes(job.candidate, job.scope, world);
  check_recipe(workload.recipe);
  check_features(job.problem.model);
  check_blocks(job.problem.model, workload.seq);
  check_attention(job.problem, job.candidate.attention);
  check_shares(job.problem.model, job.candidate, workload.seq);
  require(job.scope.kind != ScopeKind::truncated, "scope truncated");
  require(workload.global_batch % (std::int64_t{job.candidate.dp} * job.candidate.micro_batch) == 0,
          "dp times micro-batch does not divide the global batch");
}

}  // namespace planwright::worker
