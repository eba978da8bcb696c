#include "launcher/targets/nanotron/config.h"

#include <nlohmann/json.hpp>

#include "launcher/targets/nanotron/rules.h"
#include "launcher/targets/shared/launch.h"

namespace planwright::targets::nanotron {
namespace {

constexpr double kLearningRate = 3e-4;

Json model_config(const Problem& problem) {
  const ModelSpec& model = problem.model;
  const BlockSpec& block = model.block(0);
  return {{"is_llama_config", true},
          {"hidden_size", model.hidden},
          {"intermediate_size", block.ffn},
          {"num_hidden_layers", model.layers()},
          {"num_attention_heads", block.heads},
          {"num_key_value_heads", block.kv_heads},
          {"vocab_size", model.vocab},
          {"max_position_embeddings", problem.workload.seq},
          {"tie_word_embeddings", model.tied_embeddings},
          {"hidden_act", "silu"},
          {"rms_norm_eps", model.norm_eps},
          {"rope_theta", model.rope_theta},
          {"rope_interleaved", false}};
}

Json parallelism(const Candidate& c) {
  return {{"dp", c.dp},
          {"pp", c.pp},
          {"tp", c.tp},
          {"expert_parallel_size", 1},
          {"pp_engine", c.schedule == Schedule::gpipe ? "afab" : "1f1b"},
          {"tp_mode", c.sp ? "REDUCE_SCATTER" : "ALL_REDUCE"},
          {"tp_linear_async_communication", c.sp},
          {"tp_recompute_allgather", !keeps_gathered(c)},
          {"recompute_layer", c.recompute.kind == RecomputeKind::full}};
}

Json learning_rates(int steps) {
  return {{"learning_rate", kLearningRate},
          {"lr_warmup_steps", 1},
          {"lr_warmup_style", "linear"},
          {"lr_decay_style", "cosine"},
          {"lr_decay_steps", steps > 1 ? steps - 1 : 1},
          {"min_decay_lr", 3e-5}};
}

Json optimizer(const Candidate& c, int steps) {
  return {{"zero_stage", c.zero},
          {"accumulate_grad_in_fp32", true},
          {"clip_grad", 1.0},
          {"weight_decay", 0.01},
          {"optimizer_factory",
           {{"name", "adamW"},
            {"adam_beta1", 0.9},
            {"adam_beta2", 0.95},
            {"adam_eps", 1e-8},
            {"torch_adam_is_fused", true}}},
          {"learning_rate_scheduler", learning_rates(steps)}};
}

/// Without a data set nanotron makes up tokens.
Json data_stages() {
  return Json::array(
      {{{"name", "training"},
        {"start_training_step", 1},
        {"data", {{"dataset", nullptr}, {"num_loading_workers", 1}, {"seed", 42}}}}});
}

/// With a path it is nanotron's ExistingCheckpointInit: weights alone. Source: huggingface/nanotron
/// src/nanotron/config/models_config.py and trainer.py @ 2411b02.
Json init_method(const launcher::EmitRequest& request) {
  if (begins_with_weights(request)) return {{"path", kCheckpointPlaceholder}};
  return {{"std", request.plan.problem.model.init_std}};
}

Json checkpoints(bool probe) {
  return {{"checkpoints_path", "checkpoints"},
          {"checkpoint_interval", 1000},
          {"save_initial_state", false},
          {"save_final_state", !probe}};
}

}  // namespace

Json config(const launcher::EmitRequest& request) {
  const auto& [problem, c, evidence] = request.plan;
  const int steps = request.steps > 0 ? request.steps : kTrialSteps;
  return {{"general", {{"project", "planwright"}, {"run", "plan"}, {"seed", 42}}},
          {"parallelism", parallelism(c)},
          {"tokens",
           {{"sequence_length", problem.workload.seq},
            {"micro_batch_size", c.micro_batch},
            {"batch_accumulation_per_replica", accumulation(problem, c)},
            {"train_steps", steps}}},
          {"model",
           {{"dtype", "bfloat16"},
            {"ddp_bucket_cap_mb", 25},
            {"make_vocab_size_divisible_by", 1},
            {"init_method", init_method(request)},
            {"model_config", model_config(problem)}}},
          {"optimizer", optimizer(c, steps)},
          {"data_stages", data_stages()},
          {"checkpoints", checkpoints(request.probe)},
          {"logging", {{"iteration_step_info_interval", 1}}}};
}

}  // namespace planwright::targets::nanotron
