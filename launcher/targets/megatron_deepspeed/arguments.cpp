#include "launcher/targets/megatron_deepspeed/arguments.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "launcher/targets/megatron_deepspeed/holdings.h"
#include "launcher/targets/megatron_deepspeed/rules.h"
#include "launcher/targets/shared/launch.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

using launcher::EmitRequest;

bool gives(const EmitRequest& request, std::initializer_list<const char*> options) {
  const auto& words = request.user.words;
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    return std::find(options.begin(), options.end(), name) != options.end();
  });
}

void add_model(Json& json, const Problem& problem) {
  const ModelSpec& model = problem.model;
  const BlockSpec& block = model.block(0);
  json["num-layers"] = model.layers();
  json["hidden-size"] = model.hidden;
  json["ffn-hidden-size"] = block.ffn;
  json["num-attention-heads"] = block.heads;
  json["kv-channels"] = block.head_dim;
  json["max-position-embeddings"] = std::max(model.max_positions, problem.workload.seq);
  json["layernorm-epsilon"] = model.norm_eps;
  if (model.init_std != ModelSpec{}.init_std) json["init-method-std"] = model.init_std;
  json["make-vocab-size-divisible-by"] = 128;
  json["hidden-dropout"] = problem.workload.hidden_dropout;
  json["attention-dropout"] = problem.workload.attention_dropout;
}

/// Microsoft's fork has them: megatron/arguments.py there.
void add_other_fork(Json& json, const Problem& problem, const Candidate& c) {
  const ModelSpec& model = problem.model;
  const BlockSpec& block = model.block(0);
  if (block.kv_heads != block.heads) json["num-key-value-heads"] = block.kv_heads;
  if (model.positions == Positions::rotary) {
    json["use-rotary-position-embeddings"] = true;
    json["rotary-position-embeddings-theta"] = std::llround(model.rope_theta);
  }
  if (block.norm == NormKind::rms_norm) json["normalization"] = "rmsnorm";
  if (block.mlp == MlpKind::gated) json["swiglu"] = true;
  if (!block.mlp_bias) json["disable-bias-linear"] = true;
  if (!model.tied_embeddings) json["untie-embeddings-and-output-weights"] = true;
  if (c.attention == AttentionKernel::flash) json["use-flash-attn-v2"] = true;
}

void add_plan(Json& json, const Problem& problem, const Candidate& c) {
  json["tensor-model-parallel-size"] = c.tp;
  json["pipeline-model-parallel-size"] = c.pp;
  json["micro-batch-size"] = c.micro_batch;
  json["global-batch-size"] = problem.workload.global_batch;
  json["seq-length"] = problem.workload.seq;
  if (problem.workload.recipe.compute == DType::bf16) json["bf16"] = true;
  if (problem.workload.recipe.compute == DType::fp16) json["fp16"] = true;
  json["optimizer"] = "adam";
  if (c.recompute.kind == RecomputeKind::none) return;
  json["checkpoint-activations"] = true;
  json["checkpoint-num-layers"] = c.recompute.kind == RecomputeKind::chunk ? c.recompute.k : 1;
  json["deepspeed-activation-checkpointing"] = true;
}

void add_run(Json& json, const EmitRequest& request) {
  if (!gives(request, {"--train-iters", "--train-samples"})) {
    json["train-iters"] = request.steps > 0 ? request.steps : kTrialIterations;
  }
  if (!gives(request, {"--lr"})) json["lr"] = 1e-4;
  if (begins_with_weights(request) && !gives(request, {"--load"})) {
    json["load"] = kCheckpointPlaceholder;
    json["finetune"] = true;  // without the optimizer's states and the iteration
  }
  if (!request.probe) return;
  json["exit-interval"] = request.steps;
  json["eval-iters"] = 0;
  json["log-interval"] = 1;
}

/// bf16's optimizer shards its states at stage 0, and is not there at another one.
int stage_of(const Problem& problem, const Candidate& c) {
  return has_bf16_optimizer(problem) ? 0 : c.zero;
}

}  // namespace

Json arguments(const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  Json json = Json::object();
  add_model(json, problem);
  add_other_fork(json, problem, candidate);
  add_plan(json, problem, candidate);
  json["zero-stage"] = stage_of(problem, candidate);
  add_run(json, request);
  return json;
}

Json configuration(const Problem& problem, const Candidate& c, bool probe) {
  const DType compute = problem.workload.recipe.compute;
  Json fp16{{"enabled", compute == DType::fp16}};
  if (compute == DType::fp16) fp16["loss_scale"] = 0;  // dynamic
  return {{"train_batch_size", problem.workload.global_batch},
          {"train_micro_batch_size_per_gpu", c.micro_batch},
          {"gradient_clipping", 1.0},
          {"steps_per_print", probe ? 1 : 10},
          {"wall_clock_breakdown", false},
          {"fp16", fp16},
          {"bf16", {{"enabled", compute == DType::bf16}}},
          {"zero_optimization",
           {{"stage", stage_of(problem, c)}, {"reduce_bucket_size", bucket_elements(c)}}}};
}

std::vector<std::string> words_of(const Json& arguments) {
  std::vector<std::string> words;
  for (const auto& [name, value] : arguments.items()) {
    words.push_back("--" + name);
    if (value == true) continue;
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return words;
}

}  // namespace planwright::targets::megatron_deepspeed
