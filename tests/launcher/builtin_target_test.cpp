#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "launcher/targets/builtin/emit.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"
#include "tests/support/recipe_cells.h"
#include "tests/support/test_folder.h"

namespace planwright::targets::builtin {
namespace {

Problem llama(Precision precision = Precision::bf16) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 2, Precision::fp32);
  problem.workload.precision = precision;
  problem.workload.recipe = traits().recipe(precision).value_or(PrecisionRecipe{});
  problem.target = "builtin";
  return problem;
}

std::vector<std::string> broken_rules(const Problem& problem, const Candidate& candidate) {
  std::vector<std::string> names;
  for (const Rule& rule : traits().rules) {
    if (rule.broken(problem, candidate)) names.push_back(rule.name);
  }
  return names;
}

/// Bytes per element of the flat buffers that a rank keeps, by account; docs/runtime.md, Recipes.
std::int64_t bytes_per_parameter(Precision precision, OptimizerKind optimizer) {
  Problem problem = llama(precision);
  problem.workload.optimizer = optimizer;
  const Candidate candidate = testing::data_parallel(2, 0, 1);
  std::int64_t sum = 0;
  for (const Holding& holding : traits().holdings) {
    if (holding.of != HoldingOf::flat_parameters) continue;
    if (holding.when != nullptr && !holding.when(problem, candidate)) continue;
    sum += holding.copies * holding.bytes_each(problem.workload.recipe);
  }
  return sum;
}

TEST(BuiltinTraits, KeepTheBytesPerParameterOfTheRuntimesTable) {
  EXPECT_EQ(bytes_per_parameter(Precision::fp64, OptimizerKind::adamw), 32);
  EXPECT_EQ(bytes_per_parameter(Precision::fp32, OptimizerKind::adamw), 16);
  EXPECT_EQ(bytes_per_parameter(Precision::bf16, OptimizerKind::adamw), 18);
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::lion}) {
    EXPECT_EQ(bytes_per_parameter(Precision::fp64, kind), 24);
    EXPECT_EQ(bytes_per_parameter(Precision::fp32, kind), 12);
    EXPECT_EQ(bytes_per_parameter(Precision::bf16, kind), 14);
  }
  EXPECT_EQ(bytes_per_parameter(Precision::fp32, OptimizerKind::adafactor), 8);
  EXPECT_EQ(bytes_per_parameter(Precision::bf16, OptimizerKind::adafactor), 10);
}

TEST(BuiltinTraits, ZeroOneShardsTheOptimizerAndNothingElse) {
  const Candidate sharded = testing::data_parallel(2, 1, 1);
  const Candidate whole = testing::data_parallel(2, 0, 1);
  for (const Holding& holding : traits().holdings) {
    const bool state =
        holding.account == Account::optimizer && holding.of == HoldingOf::flat_parameters;
    EXPECT_EQ(holding.sharded_by(sharded), state ? ShardedBy::data_ranks : ShardedBy::nothing);
    EXPECT_EQ(holding.sharded_by(whole), ShardedBy::nothing);
  }
}

TEST(BuiltinTraits, EveryRowNamesItsSource) {
  for (const Holding& holding : traits().holdings) EXPECT_STRNE(holding.source, "");
  for (const Rule& rule : traits().rules) {
    EXPECT_FALSE(rule.source.empty()) << rule.name;
    EXPECT_FALSE(rule.text.empty()) << rule.name;
    EXPECT_FALSE(rule.fix.empty()) << rule.name;
    const auto same = [&](const Rule& other) { return other.name == rule.name; };
    EXPECT_EQ(std::count_if(traits().rules.begin(), traits().rules.end(), same), 1) << rule.name;
  }
}

TEST(BuiltinTraits, EveryPlaceholderOfARuleIsFilled) {
  const Candidate candidate = testing::data_parallel(2, 0, 1);
  for (const Rule& rule : traits().rules) {
    for (const std::string& text : {rule.text, rule.fix}) {
      const std::string filled = fill_rule_text(text, llama(), candidate);
      EXPECT_EQ(filled.find('{'), std::string::npos) << rule.name << ": " << filled;
    }
  }
}

TEST(BuiltinTraits, ACpuRunsOwnKernelsOverGlooAndAGpuComposedOnesOverNccl) {
  EXPECT_EQ(traits().kernels(DeviceKind::cpu), KernelSet::in_place);
  EXPECT_EQ(traits().kernels(DeviceKind::cuda), KernelSet::composed);
  EXPECT_EQ(traits().transport(DeviceKind::cpu), Transport::gloo);
  EXPECT_EQ(traits().transport(DeviceKind::cuda), Transport::nccl);
}

TEST(BuiltinTraits, TheBucketSizeIsAKnob) {
  Candidate candidate;
  EXPECT_EQ(traits().bucket_elements(candidate), 4194304);
  EXPECT_EQ(traits().knobs.at(0).values.at(0), "4194304") << "the first value is the default";
  candidate.knobs = {{"bucket_elements", "1000"}};
  EXPECT_EQ(traits().bucket_elements(candidate), 1000);
  for (const char* bad : {"", "0", "-4", "1e6", "12x", "99999999999999999999"}) {
    candidate.knobs = {{"bucket_elements", bad}};
    EXPECT_THROW(traits().bucket_elements(candidate), InputError) << bad;
  }
}

struct RuleCase {
  const char* rule;
  std::function<void(Problem&, Candidate&)> change;
  Candidate candidate = {.dp = 2};
};

TEST(BuiltinTraits, EachRuleRefusesWhatItNamesAndNothingElseDoes) {
  const RuleCase cases[] = {
      {"runs_experts",
       [](Problem& p, Candidate&) {
         p.model.runs[0].block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 16};
       }},
      {"runs_latent_attention",
       [](Problem& p, Candidate&) { p.model.runs[0].block.latent = LatentSpec{.kv_rank = 8}; }},
      {"runs_mamba",
       [](Problem& p, Candidate&) { p.model.runs[0].block.mamba = MambaSpec{.inner = 16}; }},
      {"runs_norm_kinds",
       [](Problem& p, Candidate&) {
         p.model.runs[0].block.norm = NormKind::layer_norm_without_bias;
       }},
      {"runs_norm_places",
       [](Problem& p, Candidate&) { p.model.runs[0].block.norm_place = NormPlace::both; }},
      {"runs_query_key_norms",
       [](Problem& p, Candidate&) {
         p.model.runs[0].block.qk_norm = true,
         p.model.runs[0].block.qk_norm_kind = QkNorm::width_rms;
       }},
      {"runs_partial_rotation",
       [](Problem& p, Candidate&) { p.model.runs[0].block.rotary_dim = 2; }},
      {"runs_attention_sinks", [](Problem& p, Candidate&) { p.model.runs[0].block.sinks = true; }},
      {"runs_capped_logits",
       [](Problem& p, Candidate&) { p.model.runs[0].block.logit_cap = true; }},
      {"runs_capped_logits", [](Problem& p, Candidate&) { p.model.logit_cap = true; }},
      {"runs_positions", [](Problem& p, Candidate&) { p.model.positions = Positions::alibi; }},
      {"runs_activations",
       [](Problem& p, Candidate&) { p.model.runs[0].block.activation = Activation::relu; }},
      {"runs_embedding_parts", [](Problem& p, Candidate&) { p.model.embedding_norm = true; }},
      {"runs_embedding_parts", [](Problem& p, Candidate&) { p.model.embedding_width = 4; }},
      {"runs_head_parts", [](Problem& p, Candidate&) { p.model.head_bias = true; }},
      {"runs_head_parts", [](Problem& p, Candidate&) { p.model.final_norm = false; }},
      {"runs_shared_blocks", [](Problem& p, Candidate&) { p.model.runs[0].shared = true; }},
      {"runs_image_tower", [](Problem& p, Candidate&) { p.model.tower_parameters = 1; }},
      {"trains", [](Problem& p, Candidate&) { p.workload.job = Job::inference; }},
      {"frozen_as_stored", [](Problem& p, Candidate&) { p.workload.job = Job::qlora; }},
      {"known_optimizer",
       [](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::adam8bit; }},
      {"known_optimizer",
       [](Problem& p, Candidate&) { p.workload.optimizer = OptimizerKind::paged_adam8bit; }},
      {"adafactor_whole_tensors",
       [](Problem& p, Candidate& c) {
         p.workload.optimizer = OptimizerKind::adafactor;
         c.zero = 1;
       }},
      {"adafactor_on_cpus",
       [](Problem& p, Candidate&) {
         p.workload.optimizer = OptimizerKind::adafactor;
         p.cluster.device.kind = DeviceKind::cuda;
       }},
      {"known_precision", [](Problem& p, Candidate&) { p.workload.precision = Precision::fp8; }},
      {"weights_as_computed",
       [](Problem& p, Candidate&) { p.workload.recipe.storage = DType::fp32; }},
      {"gradient_type", [](Problem& p, Candidate&) { p.workload.recipe.gradient = DType::fp16; }},
      {"gradient_type",
       [](Problem& p, Candidate&) {
         p.workload.precision = Precision::fp32;
         p.workload.recipe = *traits().recipe(Precision::fp32);
         p.workload.recipe.gradient = DType::bf16;
       }},
      {"state_type", [](Problem& p, Candidate&) { p.workload.recipe.state = DType::fp16; }},
      {"state_type",
       [](Problem& p, Candidate&) {
         p.workload.precision = Precision::fp64;
         p.workload.recipe = *traits().recipe(Precision::fp64);
         p.workload.recipe.state = DType::bf16;
       }},
      {"master_type", [](Problem& p, Candidate&) { p.workload.recipe.master = DType::bf16; }},
      {"fp16_has_master_weights",
       [](Problem& p, Candidate&) {
         p.workload.precision = Precision::fp16;
         p.workload.recipe = *traits().recipe(Precision::fp16);
         p.workload.recipe.master.reset();
       }},
      {"one_type_on_gpus",
       [](Problem& p, Candidate&) {
         p.cluster.device.kind = DeviceKind::cuda;
         p.workload.recipe.state = DType::bf16;
       }},
      {"flash_within_window",
       [](Problem& p, Candidate&) { p.model.runs[0].block.sliding_window = 8; }},
      {"dropout_on_cpus",
       [](Problem& p, Candidate&) {
         p.workload.hidden_dropout = 0.1;
         p.cluster.device.kind = DeviceKind::cuda;
       }},
      {"flash_without_dropout", [](Problem& p, Candidate&) { p.workload.attention_dropout = 0.1; }},
      {"dropout_of_each_half",
       [](Problem& p, Candidate&) {
         p.workload.hidden_dropout = 0.1;
         p.model.runs[0].block.residual = Residual::parallel;
       }},
      {"fused_saves_upcast",
       [](Problem& p, Candidate& c) {
         p.workload.precision = Precision::fp32;
         p.workload.recipe = *traits().recipe(Precision::fp32);
         c.loss = LossKernel::fused;
       }},
      {"rotary_head_is_even", [](Problem& p, Candidate&) { p.model.runs[0].block.head_dim = 7; }},
      {"flash_head_dim",
       [](Problem& p, Candidate&) {
         p.cluster.device.kind = DeviceKind::cuda;
         p.model.runs[0].block.head_dim = 12;
       }},
      {"flash_precision",
       [](Problem& p, Candidate&) {
         p.cluster.device.kind = DeviceKind::cuda;
         p.workload.precision = Precision::fp32;
         p.workload.recipe = *traits().recipe(Precision::fp32);
       }},
      {"tp_divides_heads",
       [](Problem& p, Candidate&) { p.model.runs[0].block.heads = 3; },
       {.tp = 2}},
      {"tp_divides_kv_heads",
       [](Problem& p, Candidate&) { p.model.runs[0].block.kv_heads = 1; },
       {.tp = 2}},
      {"tp_divides_ffn", [](Problem& p, Candidate&) { p.model.runs[0].block.ffn = 41; }, {.tp = 2}},
      {"sp_needs_tp", [](Problem&, Candidate& c) { c.sp = true; }},
      {"sp_divides_sequence",
       [](Problem& p, Candidate&) { p.workload.seq = 15; },
       {.tp = 2, .sp = true}},
      {"pp_within_layers", [](Problem& p, Candidate&) { p.model.runs[0].count = 1; }, {.pp = 2}},
      {"stages_hold_the_model",
       [](Problem&, Candidate& c) {
         c.stages = {StagePlan{2, {}, {}}, StagePlan{}};
       },
       {.pp = 2}},
      {"stages_alike",
       [](Problem&, Candidate& c) {
         c.stages = {StagePlan{1, {}, {}}, StagePlan{1, {}, {}}};
         c.stages[1].recompute.kind = RecomputeKind::full;
       },
       {.pp = 2}},
      {"schedule_needs_stages", [](Problem&, Candidate& c) { c.schedule = Schedule::gpipe; }},
      {"hsdp_divides_dp", [](Problem&, Candidate& c) { c.hsdp = 3; }, {.dp = 2, .zero = 1}},
      {"hsdp_leaves_shards", [](Problem&, Candidate& c) { c.hsdp = 2; }, {.dp = 2, .zero = 1}},
      {"recompute_within_stage",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::chunk, 3, {}};
       }},
      {"recompute_within_stage",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::alternate, 3, {}};
       }},
      {"recompute_first_of_all",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::first, 2, {}};
       }},
      {"recompute_alternate_of_one",
       [](Problem&, Candidate& c) {
         c.recompute = {RecomputeKind::alternate, 2, {}};
       }},
  };
  EXPECT_TRUE(broken_rules(llama(), testing::data_parallel(2, 1, 2)).empty());
  // What flash refuses eager takes.
  Problem windowed = llama();
  windowed.model.runs[0].block.sliding_window = 8;
  windowed.workload.attention_dropout = 0.1;
  EXPECT_TRUE(broken_rules(windowed, {.dp = 2, .attention = AttentionKernel::eager}).empty());
  for (const RuleCase& each : cases) {
    Problem problem = llama();
    Candidate candidate = each.candidate;
    each.change(problem, candidate);
    EXPECT_EQ(broken_rules(problem, candidate), std::vector<std::string>{each.rule});
  }
}

TEST(BuiltinTraits, EveryOtherOptimizerFp64AndFineTuningAreLegal) {
  Problem problem = llama(Precision::fp64);
  problem.workload.job = Job::finetune;
  for (const OptimizerKind kind :
       {OptimizerKind::adamw, OptimizerKind::sgd, OptimizerKind::lion, OptimizerKind::adafactor}) {
    problem.workload.optimizer = kind;
    EXPECT_TRUE(broken_rules(problem, testing::data_parallel(2, 0, 1)).empty()) << word(kind);
  }
}

TEST(BuiltinTraits, EveryMixOfTypesThatTheWorkerHasIsLegal) {
  const auto legal = [](const Problem& problem) {
    return broken_rules(problem, testing::data_parallel(2, 1, 1)).empty();
  };
  for (const auto& [name, precision, recipe] : testing::named_recipes()) {
    Problem problem = llama(precision);
    problem.workload.recipe = recipe;
    EXPECT_TRUE(legal(problem)) << name;
    problem.cluster.device.kind = DeviceKind::cuda;
    const DType updated = recipe.master.value_or(recipe.storage);
    EXPECT_EQ(legal(problem), bytes_of(recipe.compute) == 2 && recipe.gradient == updated &&
                                  recipe.state == updated)
        << name;
  }
}

launcher::EmitRequest request(const std::string& out) {
  launcher::EmitRequest request;
  request.plan.problem = llama();
  request.plan.problem.cluster.threads_per_rank = 2;
  request.plan.candidate = testing::data_parallel(2, 1, 2);
  request.out = out;
  request.steps = 5;
  return request;
}

TEST(BuiltinEmit, WritesAPlanAndTheCommandThatRunsIt) {
  const testing::TestFolder folder;
  const auto config = target().emit(request(folder.path()));
  const std::string plan = folder / "plan.json";
  EXPECT_EQ(config.command,
            (std::vector<std::string>{"planwright", "probe", "--plan", plan, "--steps", "5"}));
  EXPECT_EQ(config.environment.at("OMP_NUM_THREADS"), "2");
  write_files(config, false);
  EXPECT_EQ(launcher::load_plan_file(plan), request(folder.path()).plan);
  EXPECT_EQ(to_json(config).at("files"), Json::array({plan}));
}

TEST(BuiltinEmit, KeepsTheUsersEnvironmentInThePlan) {
  const testing::TestFolder folder;
  auto asked = request(folder.path());
  asked.user.environment = {{"A", "it's"}};
  const auto config = target().emit(asked);
  EXPECT_EQ(config.environment.at("A"), "it's");
  write_files(config, false);
  EXPECT_EQ(launcher::load_plan_file(folder / "plan.json"), asked.plan);
  EXPECT_EQ(launcher::load_plan_command(folder / "plan.json"), asked.user);
}

TEST(BuiltinEmit, JoinsTheFolderWithOrWithoutItsSlash) {
  for (const char* out : {"launch", "launch/"}) {
    EXPECT_EQ(emit(request(out)).files.front().path, "launch/plan.json");
  }
  EXPECT_EQ(emit(request(".")).files.front().path, "./plan.json");
}

TEST(BuiltinEmit, SaysWhatThePlanRestsOn) {
  auto asked = request("/tmp");
  auto config = emit(asked);
  EXPECT_EQ(config.evidence, launcher::EvidenceKind::predicted);
  EXPECT_EQ(config.warnings, std::vector<std::string>{"this plan is predicted, not measured"});
  asked.plan.evidence.kind = launcher::EvidenceKind::measured;
  config = emit(asked);
  EXPECT_EQ(config.evidence, launcher::EvidenceKind::measured);
  EXPECT_TRUE(config.warnings.empty());
}

TEST(BuiltinEmit, RefusesAPlanThatTheWorkerCannotRun) {
  auto asked = request("/tmp");
  asked.source = "p.json";
  asked.plan.candidate.zero = 4;
  try {
    emit(asked);
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_EQ(error.fault().file, "p.json");
    EXPECT_EQ(error.fault().key, "candidate");
    EXPECT_EQ(error.fault().rule, "builtin does not support zero 4; use zero 0, 1, 2 or 3");
    EXPECT_EQ(error.fault().nearest, "");
  }
}

}  // namespace
}  // namespace planwright::targets::builtin
