#include <gtest/gtest.h>

#include "rows.h"
#include "tests/support/fault.h"

/// What a row does not say, and its framework or the recipes around it do.
namespace planwright::testing {
namespace {

const Cells kGolden{{"framework", "megatron"},
                    {"framework_version", "golden values of June"},
                    {"zero", "0"},
                    {"vocab", ""},
                    {"n_gpus", ""}};

Cells golden_with(Cells cells) {
  cells.insert(kGolden.begin(), kGolden.end());
  return cells;
}

/// Megatron-LM's functional tests name in a row only what they change.
TEST(RowProblem, TakesADialectsDefaults) {
  const cli::RowProblem made = problem_with(kGolden);
  const Problem& problem = made.one.input.problem;
  EXPECT_EQ(problem.cluster.devices(), 8);
  EXPECT_EQ(problem.model.vocab, 50257);
  EXPECT_EQ(problem.model.block(0).norm, NormKind::layer_norm);
  EXPECT_EQ(problem.model.block(0).mlp, MlpKind::gated);
  EXPECT_EQ(problem.model.positions, Positions::learned);
  EXPECT_TRUE(problem.model.block(0).mlp_bias);
  EXPECT_DOUBLE_EQ(problem.workload.hidden_dropout, 0.1);
  const decltype(Candidate::knobs) knobs{{"deterministic_mode", "on"},
                                         {"gradient_accumulation_fusion", "off"},
                                         {"moe_token_dispatcher_type", "allgather"},
                                         {"moe_grouped_gemm", "off"},
                                         {"create_attention_mask_in_dataloader", "on"}};
  EXPECT_EQ(made.one.candidate.knobs, knobs);
  for (const char* what : {"n_gpus 8", "dp 8", "vocab 50257", "norm layer_norm",
                           "positions learned", "biases 1", "hidden_dropout 0.1"}) {
    EXPECT_TRUE(assumes(made, what)) << what;
  }
  const auto rule_of = [](const Cells& cells) {
    return testing::fault_of([&] { problem_with(golden_with(cells)); }).rule;
  };
  EXPECT_EQ(rule_of({{"tp", "16"}}), "missing column: n_gpus");
  EXPECT_EQ(rule_of({{"experts", "16"}, {"topk", "2"}, {"ep", "16"}}), "missing column: n_gpus");
}

TEST(RowProblem, DividesExpertsAsItsFrameworkDoes) {
  const Cells experts{{"experts", "8"}, {"topk", "2"}, {"tp", "2"}, {"sp", "1"}};
  const auto etp = [&](const char* framework) {
    Cells cells = experts;
    cells["framework"] = framework;
    cells["zero"] = "";
    return candidate_with(cells).etp;
  };
  EXPECT_EQ(etp("megatron"), 2);
  EXPECT_EQ(etp("nemo"), 1);
  const cli::RowProblem made = problem_with(golden_with(experts));
  EXPECT_FALSE(made.one.input.problem.model.block(0).mlp_bias);
}

TEST(RowProblem, TiesTheHeadAsItsFrameworkDoes) {
  const Cells untold{{"framework", "megatron"}, {"zero", "1"}, {"tied", ""}};
  EXPECT_TRUE(model_with(untold).tied_embeddings);
  EXPECT_EQ(testing::fault_of([] { problem_with({{"tied", ""}}); }).rule, "missing column: tied");
}

TEST(RowProblem, KnowsRecipesAroundMegatron) {
  const Cells nemo{{"framework", "nemo 2.0"}, {"zero", ""}, {"tp", "2"}};
  const cli::RowProblem made = problem_with(nemo);
  EXPECT_EQ(made.one.candidate.zero, 1);
  EXPECT_TRUE(made.one.candidate.sp);
  EXPECT_EQ(made.one.candidate.loss, LossKernel::fused);
  EXPECT_EQ(made.one.input.problem.workload.recipe.gradient, DType::bf16);
  EXPECT_TRUE(assumes(made, "grad_dtype bf16"));
}

std::string knob_of(const Candidate& candidate, const std::string& name) {
  for (const auto& [each, value] : candidate.knobs) {
    if (each == name) return value;
  }
  return "-";
}

/// The word of the precision, or what its framework does by itself.
TEST(RowProblem, KnowsHowProductsAreIn8Bits) {
  const auto recipe_of = [](const char* framework, const char* precision) {
    const Cells row{{"framework", framework},
                    {"zero", "1"},
                    {"precision", precision},
                    {"gpu", "B200"},
                    {"gpu_mem_gb", "180"}};
    EXPECT_EQ(spec_with(row).workload.precision, Precision::fp8);
    const Candidate candidate = candidate_with(row);
    return knob_of(candidate, "fp8_recipe") + " " + knob_of(candidate, "fp8_param_gather");
  };
  EXPECT_EQ(recipe_of("megatron", "fp8"), "- -");
  EXPECT_EQ(recipe_of("megatron", "mxfp8"), "mxfp8 -");
  EXPECT_EQ(recipe_of("nemo 2.0", "fp8"), "- on");
  EXPECT_EQ(recipe_of("megatron (Megatron-Bridge)", "fp8"), "tensorwise on");
  EXPECT_EQ(recipe_of("megatron-bridge", "mxfp8"), "mxfp8 on");
  EXPECT_TRUE(candidate_with({{"framework", "megatron"}, {"zero", "1"}}).knobs.empty());
}

/// MPT has no dropout, and its loss is flash-attn's.
TEST(RowProblem, KnowsModelsInComposersFsdp) {
  const Cells foundry{{"framework", "llm-foundry (composer FSDP)"}, {"act", "gelu"}};
  const cli::RowProblem made = problem_with(foundry);
  EXPECT_EQ(made.one.input.traits().name, "fsdp");
  EXPECT_EQ(made.one.candidate.loss, LossKernel::fused);
  EXPECT_EQ(made.one.input.problem.workload.hidden_dropout, 0);
  EXPECT_TRUE(assumes(made, "knobs fused_loss=flash_attn"));
}

TEST(RowProblem, HasTheDropoutOfTheModelThatIsKnownForTheActivation) {
  const auto dropout = [](const char* framework, const char* act) {
    return spec_with({{"framework", framework}, {"act", act}}).workload.attention_dropout;
  };
  EXPECT_EQ(dropout("megatron", "swiglu"), 0);
  EXPECT_DOUBLE_EQ(dropout("megatron", "gelu"), 0.1);
  EXPECT_EQ(dropout("fsdp", "gelu"), 0) << "a loop of one's own";
}

}  // namespace
}  // namespace planwright::testing
