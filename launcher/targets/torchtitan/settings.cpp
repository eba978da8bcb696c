#include "launcher/targets/torchtitan/settings.h"

#include <nlohmann/json.hpp>

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/torch_words.h"
#include "launcher/targets/torchtitan/rules.h"
#include "launcher/targets/torchtitan/stages.h"

namespace planwright::targets::torchtitan {
namespace {

/// Sequences that a data rank takes at once: a micro-batch, or with stages all of a step's.
std::int64_t local_batch(const Problem& problem, const Candidate& c) {
  return c.pp == 1 ? c.micro_batch : problem.workload.global_batch / c.dp;
}

void add_pipeline(Json& json, const Problem& problem, const Candidate& c) {
  json["pipeline_parallel_degree"] = c.pp;
  if (c.pp == 1) return;
  const char* const head = is_python_generation(problem) ? "lm_head" : "output";
  json["pipeline_parallel_schedule"] = schedule_name(c.schedule);
  json["pipeline_parallel_microbatch_size"] = c.micro_batch;
  json["module_fqns_per_model_part"] = modules_by_stage(problem.model, c, head);
}

}  // namespace

Json training(const launcher::EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  const PrecisionRecipe& recipe = problem.workload.recipe;
  Json json{{"local_batch_size", local_batch(problem, c)},
            {"global_batch_size", problem.workload.global_batch},
            {"seq_len", problem.workload.seq},
            {"max_norm", 1.0},
            {"enable_cpu_offload", c.offload.params},
            {"dtype", torch_name(updated_type(recipe))},
            {"mixed_precision_param", torch_name(recipe.compute)},
            {"mixed_precision_reduce", "float32"}};
  if (request.probe) json["steps"] = request.steps;
  return json;
}

Json parallelism(const launcher::EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  const bool sharded = c.zero > 0;
  Json json{{"data_parallel_replicate_degree", sharded ? c.hsdp : c.dp},
            {"data_parallel_shard_degree", sharded ? shard_ranks(c) : 1},
            {"fsdp_reshard_after_forward", c.zero == 3 ? "always" : "never"},
            {"tensor_parallel_degree", c.tp},
            {"context_parallel_degree", c.cp},
            {"expert_parallel_degree", c.ep}};
  if (c.ep > 1) json["expert_tensor_parallel_degree"] = c.etp;
  if (is_python_generation(problem)) json["enable_sequence_parallel"] = c.sp;
  add_pipeline(json, problem, c);
  return json;
}

Json activation_checkpoint(const Candidate& candidate) {
  switch (candidate.recompute.kind) {
    case RecomputeKind::full:
      return {{"mode", "full"}};
    case RecomputeKind::op:
      return {{"mode", "selective"}, {"selective_ac_option", "op"}};
    case RecomputeKind::alternate:
      return {{"mode", "selective"},
              {"selective_ac_option", std::to_string(candidate.recompute.k)}};
    default:
      return {{"mode", "none"}};
  }
}

}  // namespace planwright::targets::torchtitan
