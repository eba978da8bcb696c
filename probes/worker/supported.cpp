#include "probes/worker/supported.h"

#include <stdexcept>
#include <string>

namespace planwright::worker {
namespace {

void require(bool holds, const std::string& text) {
  if (!holds) throw std::invalid_argument("the worker cannot run this job: " + text);
}

void check_axes(const Candidate& c, int world) {
  require(c.tp * c.pp * c.cp * c.ep * c.etp * c.vpp == 1, "only data-parallel plans");
  require(c.dp == world,
          "dp " + std::to_string(c.dp) + " with " + std::to_string(world) + " ranks");
  require(c.zero == 0 || c.zero == 1, "zero " + std::to_string(c.zero));
  require(c.hsdp == 1 && !c.sp && c.stages.empty(), "only uniform data-parallel plans");
  require(c.offload == Offload{}, "offload " + offload_text(c.offload));
  require(c.recompute.kind == RecomputeKind::none || c.recompute.kind == RecomputeKind::full,
          "recompute " + recompute_text(c.recompute));
  require(c.attention == AttentionKernel::flash && c.loss == LossKernel::plain,
          "only flash attention and the plain loss");
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

void check_blocks(const ModelSpec& model, std::int64_t seq) {
  for (const BlockRun& run : model.runs) {
    require(run.block.heads % run.block.kv_heads == 0, "heads are no multiple of kv_heads");
    require(run.block.sliding_window == 0 || run.block.sliding_window >= seq,
            "a sliding window shorter than the sequence");
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
  check_axes(job.candidate, world);
  check_recipe(workload.recipe);
  check_blocks(job.problem.model, workload.seq);
  require(job.scope.kind == ScopeKind::full, "scope " + std::string(word(job.scope.kind)));
  require(workload.global_batch % (std::int64_t{job.candidate.dp} * job.candidate.micro_batch) == 0,
          "dp times micro-batch does not divide the global batch");
}

}  // namespace planwright::worker
