#include <gtest/gtest.h>

#include "rows.h"
#include "tests/support/fault.h"

/// What model a row is of.
namespace planwright::testing {
namespace {

TEST(RowModel, IsThePresetOfThatNameWhereTheIntegersAgree) {
  const Cells llama3{{"model", "meta-llama/Meta-Llama-3-8B"},
                     {"layers", ""},
                     {"hidden", "4096"},
                     {"heads", ""},
                     {"kv_heads", "8"},
                     {"ffn", ""},
                     {"vocab", ""},
                     {"act", ""},
                     {"tied", ""}};
  const cli::RowProblem made = problem_with(llama3);
  EXPECT_EQ(made.one.input.problem.model.layers(), 32);
  EXPECT_EQ(made.one.input.problem.model.vocab, 128256);
  EXPECT_TRUE(assumes(made, "the rest of the model as in llama-3-8b"));
  for (const char* name : {"Llama 2 7 B", "Llama-2-7B (base)", "NousResearch/Llama-2-7b-hf",
                           "LLAMA2_7B", "Llama-7B"}) {
    EXPECT_TRUE(assumes(problem_with({{"model", name}}), "the rest of the model as in llama-2-7b"))
        << name;
  }
}

TEST(RowModel, MayBeAPresetThatWasCutOrFilledUp) {
  const ModelSpec model =
      model_with({{"model", "Llama 2 7B"}, {"layers", "4"}, {"vocab", "32128"}, {"tied", "1"}});
  EXPECT_EQ(model.name, "llama-2-7b");
  EXPECT_EQ(model.layers(), 4);
  EXPECT_EQ(model.vocab, 32128);
  EXPECT_TRUE(model.tied_embeddings);
}

/// An argument of Megatron-LM, whose default is for models of its own; not one of litgpt.
TEST(RowModel, OfAPresetTiesWhatThePresetTies) {
  Cells preset{{"framework", "megatron"}, {"zero", "1"}, {"model", "Llama 2 7B"}, {"tied", ""}};
  EXPECT_FALSE(model_with(preset).tied_embeddings);
  preset["model"] = "GPT-2 small";
  for (const char* column : {"layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "act"}) {
    preset[column] = "";
  }
  EXPECT_TRUE(model_with(preset).tied_embeddings);
}

/// The layers that are left are the first ones.
TEST(RowModel, MayBeCutWhereLayersDiffer) {
  const Cells deepseek{{"model", "DeepSeek-V2 cut to 4 layers"},
                       {"layers", "4"},
                       {"hidden", "5120"},
                       {"heads", "128"},
                       {"kv_heads", ""},
                       {"ffn", "1536"},
                       {"experts", "160"},
                       {"topk", "6"},
                       {"vocab", ""}};
  const ModelSpec model = model_with(deepseek);
  EXPECT_EQ(model.name, "deepseek-v2");
  EXPECT_EQ(model.layers(), 4);
  EXPECT_FALSE(model.block(0).moe.has_value());
  EXPECT_TRUE(model.block(3).moe.has_value());
  EXPECT_TRUE(model.block(0).latent.has_value());
}

TEST(RowModel, IsMadeOfTheCellsWhereTheyDiffer) {
  const ModelSpec model = model_with({{"model", "Llama 2 7B"}, {"hidden", "2048"}});
  EXPECT_EQ(model.hidden, 2048);
  EXPECT_EQ(model.block(0).head_dim, 64);
}

TEST(RowModel, IsAsWideAsItsFrameworkMakesIt) {
  const Cells megatron{{"framework", "megatron"}, {"zero", "1"}, {"ffn", ""}, {"model", "some"}};
  EXPECT_EQ(model_with(megatron).block(0).ffn, 4 * 4096 * 2 / 3 / 64 * 64);
  Cells plain = megatron;
  plain["act"] = "gelu";
  EXPECT_EQ(model_with(plain).block(0).ffn, 4 * 4096);
  EXPECT_TRUE(assumes(problem_with(plain), "ffn 16384"));
}

TEST(RowModel, HasTheBlockOfItsActivation) {
  const BlockSpec llama = model_with({}).block(0);
  EXPECT_EQ(llama.mlp, MlpKind::gated);
  EXPECT_EQ(llama.activation, Activation::silu);
  EXPECT_EQ(llama.norm, NormKind::rms_norm);
  EXPECT_FALSE(llama.qkv_bias);
  const ModelSpec gpt = model_with({{"act", "gelu"}});
  EXPECT_EQ(gpt.block(0).mlp, MlpKind::plain);
  EXPECT_EQ(gpt.block(0).norm, NormKind::layer_norm);
  EXPECT_TRUE(gpt.block(0).mlp_bias);
  EXPECT_EQ(gpt.positions, Positions::learned);
  EXPECT_EQ(gpt.max_positions, 2048);
  EXPECT_TRUE(assumes(problem_with({{"act", "gelu"}}),
                      "blocks as GPT-2's: plain, layer_norm, learned positions, biases"));
  EXPECT_EQ(model_with({{"act", "relu2"}}).block(0).activation, Activation::relu_squared);
  EXPECT_EQ(model_with({{"act", "geglu"}}).block(0).mlp, MlpKind::gated);
}

TEST(RowModel, HasAsManyKeysAsQueriesUnlessItSaysOtherwise) {
  EXPECT_EQ(model_with({{"kv_heads", ""}}).block(0).kv_heads, 32);
  EXPECT_TRUE(assumes(problem_with({{"kv_heads", ""}}), "kv_heads 32"));
}

TEST(RowModel, HasExpertsOfTheWidthOfItsMlp) {
  const auto moe = model_with({{"experts", "8"}, {"topk", "2"}}).block(0).moe;
  ASSERT_TRUE(moe);
  EXPECT_EQ(moe->experts, 8);
  EXPECT_EQ(moe->top_k, 2);
  EXPECT_EQ(moe->ffn, 11008);
}

TEST(RowModel, OfANameThatIsNotKnownSaysSoWithTheNearest) {
  const Cells nothing{{"layers", ""}, {"hidden", ""}, {"heads", ""}, {"vocab", ""}};
  Cells misspelt = nothing;
  misspelt["model"] = "Lama-2-7b";
  EXPECT_EQ(std::string(InputError(fault_of([&] { problem_with(misspelt); })).what()),
            "missing column: layers, and no model is known as Lama-2-7b; did you mean llama-2-7b?");
  Cells unnamed = nothing;
  unnamed["model"] = "";
  EXPECT_EQ(fault_of([&] { problem_with(unnamed); }).rule, "missing column: layers");
}

}  // namespace
}  // namespace planwright::testing
