#include "launcher/targets/fsdp/emit.h"

#include <nlohmann/json.hpp>

#include "estimator/spec/recompute_plan.h"
#include "launcher/targets/fsdp/rules.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/fsdp1.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/torch_words.h"

namespace planwright::targets::fsdp {
namespace {

using launcher::EmitRequest;
using launcher::LaunchConfig;

Json checkpointed(const Recompute& recompute, std::int64_t layers) {
  Json blocks = Json::array();
  for (const RecomputeSegment& segment : recompute_segments(recompute, layers)) {
    for (std::int64_t i = 0; segment.recomputed && i < segment.count; ++i) {
      blocks.push_back(segment.first + i);
    }
  }
  return blocks;
}

void add_sharding(Json& json, const Candidate& c) {
  const bool sharded = c.zero > 0;
  json["wrap"] = is_fsdp1(c) ? "FullyShardedDataParallel" : sharded ? "fully_shard" : "ddp";
  json["mesh"] = {{"dp_replicate", sharded ? c.hsdp : c.dp},
                  {"dp_shard", sharded ? shard_ranks(c) : 1}};
  json["reshard_after_forward"] = c.zero == 3;
  if (is_fsdp1(c)) json["backward_prefetch"] = prefetches(c) ? Json(prefetch_word(c)) : Json();
  json["cpu_offload"] = c.offload.params;
}

void add_types(Json& json, const PrecisionRecipe& recipe) {
  json["storage_dtype"] = torch_name(updated_type(recipe));
  json["param_dtype"] = torch_name(recipe.compute);
  json["reduce_dtype"] = torch_name(recipe.gradient);
}

void add_work(Json& json, const Problem& problem, const Candidate& c) {
  json["checkpoint_blocks"] = checkpointed(c.recompute, problem.model.layers());
  json["offload_checkpoints"] = c.offload.activations;
  json["micro_batch_size"] = c.micro_batch;
  json["gradient_accumulation_steps"] = accumulation(problem, c);
  json["sequence_length"] = problem.workload.seq;
  json["optimizer"] = word(problem.workload.optimizer);
  json["attention"] = word(c.attention);
  json["loss"] = word(c.loss);
}

}  // namespace

LaunchConfig emit(const EmitRequest& request) {
  require_expressible(request, emit_rules());
  const auto& [problem, candidate, evidence] = request.plan;
  Json json{{"schema", "planwright.fsdp/1"}};
  add_sharding(json, candidate);
  add_types(json, problem.workload.recipe);
  add_work(json, problem, candidate);
  if (request.probe) json["max_steps"] = request.steps;

  LaunchConfig config;
  const std::string path = path_of(request, "fsdp_settings.json");
  config.files.push_back({path, json.dump(2) + "\n"});
  config.command = command_of(request, torchrun(request), {"--settings", path});
  config.warnings = adapter_warnings(request);
  return finished(std::move(config), request, {"2.11.0"});
}

}  // namespace planwright::targets::fsdp
