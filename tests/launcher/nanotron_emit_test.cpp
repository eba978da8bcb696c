#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "launcher/targets/nanotron/emit.h"
#include "tests/support/emit_requests.h"

namespace planwright::targets::nanotron {
namespace {

using testing::text_of;
using testing::warns;

/// tp 2 with its sequences, pp 2, dp 2, full recompute, 64 sequences a step.
launcher::EmitRequest request() {
  Candidate c = testing::sharded_candidate();
  c.zero = 1;
  c.dp = c.tp = c.pp = 2;
  c.sp = true;
  return testing::emit_request("nanotron", "0.4", c);
}

std::string body(const launcher::LaunchConfig& config) {
  const std::string text = text_of(config, "nanotron.yaml");
  return text.substr(text.find("general:"));
}

YAML::Node yaml(const launcher::EmitRequest& asked) {
  return YAML::Load(text_of(emit(asked), "nanotron.yaml"));
}

TEST(NanotronEmit, WritesEveryDegreeAndType) {
  EXPECT_EQ(body(emit(request())), R"(general:
  project: planwright
  run: plan
  seed: 42
parallelism:
  dp: 2
  pp: 2
  tp: 2
  expert_parallel_size: 1
  pp_engine: "1f1b"
  tp_mode: REDUCE_SCATTER
  tp_linear_async_communication: true
  tp_recompute_allgather: true
  recompute_layer: true
tokens:
  sequence_length: 4096
  micro_batch_size: 1
  batch_accumulation_per_replica: 32
  train_steps: 10
model:
  dtype: bfloat16
  ddp_bucket_cap_mb: 25
  make_vocab_size_divisible_by: 1
  init_method:
    std: 0.02
  model_config:
    is_llama_config: true
    hidden_size: 4096
    intermediate_size: 14336
    num_hidden_layers: 32
    num_attention_heads: 32
    num_key_value_heads: 8
    vocab_size: 128256
    max_position_embeddings: 4096
    tie_word_embeddings: false
    hidden_act: silu
    rms_norm_eps: 1.0e-05
    rope_theta: 500000.0
    rope_interleaved: false
optimizer:
  zero_stage: 1
  accumulate_grad_in_fp32: true
  clip_grad: 1.0
  weight_decay: 0.01
  optimizer_factory:
    name: adamW
    adam_beta1: 0.9
    adam_beta2: 0.95
    adam_eps: 1.0e-08
    torch_adam_is_fused: true
  learning_rate_scheduler:
    learning_rate: 0.0003
    lr_warmup_steps: 1
    lr_warmup_style: linear
    lr_decay_style: cosine
    lr_decay_steps: 9
    min_decay_lr: 3.0e-05
data_stages: [{"name":"training","start_training_step":1,"data":{"dataset":null,"num_loading_workers":1,"seed":42}}]
checkpoints:
  checkpoints_path: checkpoints
  checkpoint_interval: 1000
  save_initial_state: false
  save_final_state: true
logging:
  iteration_step_info_interval: 1
)");
}

TEST(NanotronEmit, StartsItsTrainerWithTheFile) {
  const launcher::LaunchConfig config = emit(request());
  EXPECT_EQ(config.command.front(), "torchrun");
  const std::vector<std::string> tail(config.command.end() - 3, config.command.end());
  EXPECT_EQ(tail[0], "run_train.py");
  EXPECT_EQ(tail[1], "--config-file");
  EXPECT_TRUE(tail[2].ends_with("nanotron.yaml"));
  EXPECT_EQ(config.environment.at("CUDA_DEVICE_MAX_CONNECTIONS"), "1");
  EXPECT_TRUE(warns(config, "run_train.py is nanotron's own"));
  EXPECT_TRUE(warns(config, "made-up tokens", "nanotron.yaml"));
  EXPECT_TRUE(warns(config, "ends after 10"));
}

TEST(NanotronEmit, WritesKnobScheduleAndTensorModes) {
  launcher::EmitRequest asked = request();
  asked.plan.candidate.knobs = {{"tp_recompute_allgather", "off"}};
  asked.plan.candidate.schedule = Schedule::gpipe;
  EXPECT_FALSE(yaml(asked)["parallelism"]["tp_recompute_allgather"].as<bool>());
  EXPECT_EQ(yaml(asked)["parallelism"]["pp_engine"].as<std::string>(), "afab");
  asked = request();
  asked.plan.candidate.sp = false;
  EXPECT_EQ(yaml(asked)["parallelism"]["tp_mode"].as<std::string>(), "ALL_REDUCE");
  EXPECT_FALSE(yaml(asked)["parallelism"]["tp_linear_async_communication"].as<bool>());
}

TEST(NanotronEmit, CutsAProbeToItsSteps) {
  launcher::EmitRequest asked = request();
  asked.steps = 4;
  asked.probe = true;
  EXPECT_EQ(yaml(asked)["tokens"]["train_steps"].as<int>(), 4);
  EXPECT_FALSE(yaml(asked)["checkpoints"]["save_final_state"].as<bool>());
  EXPECT_FALSE(warns(emit(asked), "ends after"));
}

}  // namespace
}  // namespace planwright::targets::nanotron
