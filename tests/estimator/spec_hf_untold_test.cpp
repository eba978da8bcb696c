#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "estimator/spec/hf_config.h"
#include "estimator/spec/problem.h"
#include "hf_files.h"

namespace planwright {
namespace {

using testing::published;

ModelSpec read(const std::string& name) { return model_from_hf_config(published(name), name); }

TEST(SpecHfUntold, HowPositionsAreStretchedIsReadFromEitherKey) {
  const RopeScaling llama3{.type = "llama3",
                           .factor = 8.0,
                           .original_positions = 8192,
                           .low_freq_factor = 1.0,
                           .high_freq_factor = 4.0};
  EXPECT_EQ(read("llama-3.1-8b").rope_scaling, llama3);
  Json moved = published("llama-3.1-8b");
  moved["rope_parameters"] = moved["rope_scaling"];
  moved["rope_parameters"]["rope_theta"] = moved["rope_theta"];
  moved.erase("rope_scaling");
  EXPECT_EQ(model_from_hf_config(moved, "x").rope_scaling, llama3);
  EXPECT_FALSE(read("llama-3-8b").rope_scaling);
  EXPECT_EQ(read("gemma-3-12b").rope_scaling->type, "linear") << "of the language model";
  const RopeScaling yarn = read("kimi-k2").rope_scaling.value();
  EXPECT_EQ(yarn.type, "yarn");
  EXPECT_EQ(yarn.beta_fast, 1.0);
  EXPECT_EQ(yarn.mscale_all_dim, 1.0);
  EXPECT_EQ(read("phi-3.5-mini").rope_scaling->original_positions, 4096)
      << "which stands beside the others";
}

TEST(SpecHfUntold, WhatStretchesNothingIsNoScaling) {
  Json config = published("qwen2.5-7b");
  for (const char* scaling :
       {"null", "{}", R"({"rope_type":"default"})", R"({"type":"mrope","mrope_section":[1]})"}) {
    config["rope_scaling"] = Json::parse(scaling);
    EXPECT_FALSE(model_from_hf_config(config, "x").rope_scaling) << scaling;
  }
}

TEST(SpecHfUntold, RoutersAreReadWithTheirFamiliesDefaults) {
  const auto moe = [](const std::string& name) { return *read(name).runs.back().block.moe; };
  EXPECT_TRUE(moe("mixtral-8x7b").weights_sum_to_one);
  EXPECT_FALSE(moe("qwen1.5-moe-a2.7b").weights_sum_to_one);
  EXPECT_TRUE(moe("qwen3-30b-a3b").weights_sum_to_one);
  const MoeSpec v3 = moe("deepseek-v3");
  EXPECT_EQ(v3.score, RouterScore::sigmoid);
  EXPECT_EQ(v3.groups, 8);
  EXPECT_EQ(v3.top_groups, 4);
  EXPECT_EQ(v3.weights_scale, 2.5);
  EXPECT_EQ(moe("deepseek-v2-lite").groups, 0) << "one group is none";
  EXPECT_EQ(moe("deepseek-v2").score, RouterScore::softmax);
}

TEST(SpecHfUntold, KeysWithoutAFieldAreNamedWithTheirValues) {
  EXPECT_EQ(read("granite-3.3-8b").unsized,
            "attention_multiplier = 0.0078125, embedding_multiplier = 12.0, logits_scaling = 16.0, "
            "residual_multiplier = 0.22");
  EXPECT_EQ(read("llama-3.1-8b").unsized, "");
  EXPECT_EQ(read("gpt2").unsized, "");
  EXPECT_EQ(read("qwen-7b-v1").unsized, "use_dynamic_ntk = true, use_logn_attn = true");
}

/// No estimate depends on them: a study of the same model goes on.
TEST(SpecHfUntold, AProblemIsTheSameWithoutThem) {
  Problem problem, plain;
  problem.model = plain.model = read("deepseek-v3");
  plain.model.rope_scaling.reset();
  plain.model.unsized = "something";
  for (BlockRun& run : plain.model.runs) {
    if (run.block.moe) run.block.moe->weights_scale = 1.0, run.block.moe->groups = 0;
  }
  EXPECT_EQ(problem_hash(problem), problem_hash(plain));
}

}  // namespace
}  // namespace planwright
