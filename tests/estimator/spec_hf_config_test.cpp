#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "estimator/spec/hf_config.h"
#include "hf_files.h"
#include "tests/support/fault.h"

namespace planwright {
namespace {

namespace fs = std::filesystem;
using testing::fault_of;
using testing::file_text;
using testing::kConfigs;
using testing::patched;
using testing::published;

std::vector<std::string> json_files(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The published figures: one, or several by what is counted.
std::vector<std::int64_t> published_counts(const Json& config) {
  const Json& exact = config["_published_params"]["exact"];
  if (exact.is_number()) return {exact.get<std::int64_t>()};
  std::vector<std::int64_t> counts;
  for (const auto& item : exact.items()) counts.push_back(item.value().get<std::int64_t>());
  return counts;
}

/// Families whose configs are known only from their source.
const std::set<std::string> kWithoutPreset{"RefinedWeb", "RefinedWebModel", "cohere2",
                                           "glm4",       "nemotron",        "smollm3"};

TEST(SpecHfConfig, EveryShippedConfigCountsExactly) {
  std::map<std::string, int> seen;
  for (const auto& file : json_files(kConfigs)) {
    const Json config = parse_json(file_text(file), file);
    SCOPED_TRACE(file);
    const ModelSpec model = read_hf_config(file);
    const std::int64_t total = parameter_counts(model).total;
    const auto counts = published_counts(config);
    EXPECT_NE(std::find(counts.begin(), counts.end(), total), counts.end()) << total;
    EXPECT_EQ(model.name + ".json", fs::path(file).filename().string());
    EXPECT_FALSE(config["_source"].get<std::string>().empty());
    ++seen[config["model_type"].get<std::string>()];
  }
  for (const std::string& family : hf_families()) {
    const bool inner = family.ends_with("_text");
    EXPECT_TRUE(seen[family] > 0 || inner || kWithoutPreset.count(family) > 0) << family;
  }
}

TEST(SpecHfConfig, AnImageTowerIsCountedBesideItsTextModel) {
  const ModelSpec model = model_from_hf_config(published("gemma-3-27b"), "x");
  EXPECT_EQ(parameter_counts(model).total, 27'009'346'304);
  EXPECT_EQ(parameter_counts(model).total + model.tower_parameters, 27'432'406'640);
  EXPECT_EQ(model.family, "gemma3");
}

TEST(SpecHfConfig, OfAModelOfSeveralPartsTheLanguageModelIsRead) {  // UR-057, UR-058, UR-068
  for (const char* key : {"text_config", "language_config", "llm_config"}) {
    Json config{{"model_type", "some_vl"},
                {"architectures", {"SomeVlForConditionalGeneration"}},
                {"num_hidden_layers", 33},
                {"tie_word_embeddings", true},
                {"vision_config", {{"hidden_size", 1024}}}};
    config[key] = published("llama-2-7b");
    const ModelSpec model = model_from_hf_config(config, "x");
    EXPECT_EQ(parameter_counts(model).total, 6'738'415'616) << key;
    EXPECT_EQ(model.uncounted, "vision_config") << key;
  }
  Json neither{{"model_type", "some_vl"}, {"text_config", {{"model_type", "some_text"}}}};
  EXPECT_EQ(fault_of([&] { model_from_hf_config(neither, "x"); }).key, "text_config.model_type");
}

TEST(SpecHfConfig, FalconsFirstNamesAreRead) {  // UR-064
  const Json old{{"model_type", "RefinedWebModel"},
                 {"architectures", {"RWForCausalLM"}},
                 {"alibi", false},
                 {"bias", false},
                 {"hidden_size", 4544},
                 {"multi_query", true},
                 {"n_head", 71},
                 {"n_layer", 32},
                 {"parallel_attn", true},
                 {"vocab_size", 65024}};
  EXPECT_EQ(parameter_counts(model_from_hf_config(old, "x")).total, 6'921'720'704);
  const Json large{{"model_type", "RefinedWeb"},
                   {"alibi", false},
                   {"bias", false},
                   {"hidden_size", 8192},
                   {"n_head", 128},
                   {"n_head_kv", 8},
                   {"n_layer", 60},
                   {"parallel_attn", true},
                   {"vocab_size", 65024}};
  const ModelSpec model = model_from_hf_config(large, "x");
  EXPECT_EQ(parameter_counts(model).total, 41'303'293'952);
  EXPECT_EQ(model.block(0).kv_heads, 8);
}

TEST(SpecHfConfig, RoutedExpertsOfDeepSeekV3) {  // UR-072
  std::int64_t routed = 0;
  const ModelSpec model = model_from_hf_config(published("deepseek-v3"), "x");
  for (const auto& each : parameter_tensors(model)) routed += each.experts > 1 ? each.numel() : 0;
  EXPECT_EQ(routed, 653'908'770'816);
  const auto counts = parameter_counts(model);
  EXPECT_EQ(counts.active, counts.total - routed * 248 / 256);
}

TEST(SpecHfConfig, WindowsOfGemma3) {  // UR-061
  const ModelSpec model = model_from_hf_config(published("gemma-3-12b"), "x");
  int windowed = 0;
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    windowed += model.block(layer).sliding_window == 1024 ? 1 : 0;
  }
  EXPECT_EQ(windowed, 40);
  EXPECT_EQ(model.layers(), 48);
}

TEST(SpecHfConfig, OneBlockThatRunsInEveryLayerIsCountedOnce) {
  const ModelSpec model = model_from_hf_config(published("albert-base-v2"), "x");
  EXPECT_EQ(model.layers(), 12);
  EXPECT_EQ(parameter_counts(model).total, 11'221'680);
}

struct ActiveCase {
  const char* name;
  double billions;  ///< as stated by its makers, to the digits they give
  double within;
};

TEST(SpecHfConfig, ExpertsThatATokenIsNotSentToAreNotActive) {
  for (const ActiveCase& c : {ActiveCase{"mixtral-8x7b", 12.9, 0.05},
                              {"dbrx", 36, 0.5},
                              {"deepseek-v3", 37, 0.6},
                              {"qwen3-30b-a3b", 3.3, 0.06},
                              {"jamba-v0.1", 12, 0.2},
                              {"llama-4-scout", 17, 0.2}}) {
    const auto counts = parameter_counts(model_from_hf_config(published(c.name), c.name));
    EXPECT_NEAR(static_cast<double>(counts.active) / 1e9, c.billions, c.within) << c.name;
    EXPECT_EQ(counts.trainable,
              counts.total - (c.name == std::string("deepseek-v3") ? 58 * 256 : 0));
  }
  const auto dense = parameter_counts(model_from_hf_config(published("llama-2-7b"), "x"));
  EXPECT_EQ(dense.active, dense.total);
}

TEST(SpecHfConfig, AQuantisedCheckpointIsReadForWhatItIs) {  // UR-071
  const ModelSpec v3 = model_from_hf_config(published("deepseek-v3"), "x");
  ASSERT_TRUE(v3.checkpoint);
  EXPECT_EQ(v3.checkpoint->type, WeightType::fp8);
  EXPECT_EQ(v3.checkpoint->group, (ScaleGroup{.rows = 128, .columns = 128}));
  const ModelSpec oss = model_from_hf_config(published("gpt-oss-20b"), "x");
  ASSERT_TRUE(oss.checkpoint);
  EXPECT_EQ(oss.checkpoint->name, "mxfp4");
  EXPECT_EQ(oss.checkpoint->kept, std::vector<std::string>{"self_attn"});
  EXPECT_FALSE(model_from_hf_config(published("llama-2-7b"), "x").checkpoint);
}

TEST(SpecHfConfig, Gpt2IsReadInEveryField) {
  const ModelSpec model = model_from_hf_config(published("gpt2"), "gpt2.json");
  const BlockSpec block{.heads = 12,
                        .kv_heads = 12,
                        .head_dim = 64,
                        .ffn = 3072,
                        .mlp = MlpKind::plain,
                        .activation = Activation::gelu_tanh,
                        .norm = NormKind::layer_norm,
                        .qkv_bias = true,
                        .out_bias = true,
                        .mlp_bias = true};
  const ModelSpec expected{.name = "gpt2",
                           .family = "gpt2",
                           .hidden = 768,
                           .vocab = 50257,
                           .max_positions = 1024,
                           .positions = Positions::learned,
                           .rope_theta = 10000.0,
                           .norm_eps = 1e-5,
                           .tied_embeddings = true,
                           .runs = {{12, block}},
                           .lora = {},
                           .dropout = "attn_pdrop = 0.1, embd_pdrop = 0.1, resid_pdrop = 0.1"};
  EXPECT_EQ(model, expected);
}

TEST(SpecHfConfig, Qwen3NormsItsHeads) {
  const ModelSpec model = model_from_hf_config(published("qwen3-8b"), "qwen3-8b");
  ASSERT_EQ(model.runs.size(), 1u);
  const BlockSpec& block = model.runs.front().block;
  EXPECT_TRUE(block.qk_norm);
  EXPECT_FALSE(block.qkv_bias || block.out_bias || block.mlp_bias);
  EXPECT_EQ(block.head_dim, 128);
  EXPECT_FALSE(model_from_hf_config(published("qwen2.5-7b"), "").block(0).qk_norm);
}

TEST(SpecHfConfig, Qwen2IsReadInEveryField) {
  const ModelSpec model = model_from_hf_config(published("qwen2.5-0.5b"), "qwen2.5-0.5b");
  const BlockSpec block{.heads = 14,
                        .kv_heads = 2,
                        .head_dim = 64,
                        .ffn = 4864,
                        .mlp = MlpKind::gated,
                        .activation = Activation::silu,
                        .norm = NormKind::rms_norm,
                        .qkv_bias = true};
  const ModelSpec expected{.name = "qwen2.5-0.5b",
                           .family = "qwen2",
                           .hidden = 896,
                           .vocab = 151936,
                           .max_positions = 32768,
                           .positions = Positions::rotary,
                           .rope_theta = 1e6,
                           .norm_eps = 1e-6,
                           .tied_embeddings = true,
                           .runs = {{24, block}},
                           .lora = {}};
  EXPECT_EQ(model, expected);
}

struct CountCase {
  const char* about;
  const char* base;
  const char* patch;
  std::int64_t total;
};

const CountCase kCounts[] = {
    {"UR-062: Mistral-Nemo's heads are not hidden / heads", "mistral-7b",
     R"({"hidden_size":5120,"head_dim":128,"num_hidden_layers":40,"vocab_size":131072,
         "sliding_window":null})",
     12'247'782'400},
    {"UR-065: null kv heads are as many as the heads", "llama-2-7b",
     R"({"num_key_value_heads":null})", 6'738'415'616},
    {"UR-065: absent kv heads are as many as the heads", "llama-2-7b",
     R"({"num_key_value_heads":"absent"})", 6'738'415'616},
    {"UR-068: an absent tie is llama's default, untied", "llama-3-8b",
     R"({"tie_word_embeddings":"absent"})", 8'030'261'248},
    {"UR-068: an absent tie is gpt2's default, tied", "gpt2", R"({"tie_word_embeddings":null})",
     124'439'808},
    {"UR-068: a tie that is given wins", "gpt2", R"({"tie_word_embeddings":false})",
     124'439'808 + 50257 * 768},
    {"UR-069: the spelling of transformers 5", "llama-3.1-8b",
     R"({"torch_dtype":"absent","dtype":"bfloat16","rope_theta":"absent","rope_scaling":"absent",
         "rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3","factor":8.0}})",
     8'030'261'248},
    {"UR-069: a null rope_scaling is none", "qwen2.5-7b", R"({"rope_scaling":null})",
     7'615'616'512},
    {"UR-073: Qwen2.5-72B in total", "qwen2.5-7b",
     R"({"hidden_size":8192,"intermediate_size":29568,"num_hidden_layers":80,
         "num_attention_heads":64,"num_key_value_heads":8,"max_window_layers":80})",
     72'706'203'648},
    {"UR-128: gpt2 by the names of other families", "gpt2",
     R"({"n_embd":"absent","hidden_size":768,"n_layer":"absent","num_hidden_layers":12,
         "n_head":"absent","num_attention_heads":12})",
     124'439'808},
    {"n_inner null is four times the width", "gpt2", R"({"n_inner":null})", 124'439'808},
    {"n_inner as given", "gpt2", R"({"n_inner":1024})",
     124'439'808 - 12 * (2 * 768 + 1) * (3072 - 1024)},
    {"attention_bias gives query, key, value and output one", "llama-3-8b",
     R"({"attention_bias":true})", 8'030'261'248 + 32 * (4096 + 2 * 1024 + 4096)},
    {"mlp_bias gives gate, up and down one", "llama-3-8b", R"({"mlp_bias":true})",
     8'030'261'248 + 32 * (2 * 14336 + 4096)},
    {"keys with a leading underscore mean nothing", "llama-2-7b",
     R"({"_attn_implementation":"sdpa","_anything":{"hidden_size":1}})", 6'738'415'616},
    {"no architectures", "llama-2-7b", R"({"architectures":null})", 6'738'415'616},
};

TEST(SpecHfConfig, CountsFollowTheKeysThatAreGiven) {
  for (const CountCase& c : kCounts) {
    SCOPED_TRACE(c.about);
    const ModelSpec model = model_from_hf_config(patched(c.base, c.patch), "patched.json");
    EXPECT_EQ(parameter_counts(model).total, c.total);
  }
}

TEST(SpecHfConfig, GroupsAreNumbersOfKeyValueHeads) {  // UR-074
  const ModelSpec model = model_from_hf_config(published("llama-3-8b"), "x");
  EXPECT_EQ(model.block(0).heads, 32);
  EXPECT_EQ(model.block(0).kv_heads, 8);
}

TEST(SpecHfConfig, RopeThetaIsReadFromEitherPlace) {
  const char* moved = R"({"rope_theta":"absent","rope_parameters":{"rope_theta":5e5}})";
  EXPECT_EQ(model_from_hf_config(patched("llama-3-8b", moved), "x").rope_theta, 5e5);
  EXPECT_EQ(model_from_hf_config(published("llama-3-8b"), "x").rope_theta, 5e5);
  EXPECT_EQ(model_from_hf_config(published("llama-2-7b"), "x").rope_theta, 1e4);
}

struct WindowCase {
  const char* about;
  const char* base;
  const char* patch;
  std::vector<std::pair<std::int64_t, std::int64_t>> runs;  ///< layers, window
};

const WindowCase kWindows[] = {
    {"mistral's window is in force", "mistral-7b", "{}", {{32, 4096}}},
    {"null is no window", "mistral-7b", R"({"sliding_window":null})", {{32, 0}}},
    {"qwen2 has one only if it says so", "qwen2.5-0.5b", R"({"sliding_window":4096})", {{24, 0}}},
    {"from max_window_layers on",
     "qwen2.5-0.5b",
     R"({"sliding_window":4096,"use_sliding_window":true,"max_window_layers":20})",
     {{20, 0}, {4, 4096}}},
    {"on every layer",
     "qwen2.5-0.5b",
     R"({"sliding_window":4096,"use_sliding_window":true,"max_window_layers":0})",
     {{24, 4096}}},
    {"on none",
     "qwen2.5-0.5b",
     R"({"sliding_window":4096,"use_sliding_window":true,"max_window_layers":24})",
     {{24, 0}}},
    {"where layer_types says so",
     "qwen2.5-0.5b",
     R"({"sliding_window":4096,"use_sliding_window":true,"num_hidden_layers":4,"layer_types":
        ["full_attention","sliding_attention","sliding_attention","full_attention"]})",
     {{1, 0}, {2, 4096}, {1, 0}}},
    {"layer_types of full attention",
     "qwen2.5-0.5b",
     R"({"num_hidden_layers":2,"layer_types":["full_attention","full_attention"]})",
     {{2, 0}}},
};

TEST(SpecHfConfig, AWindowCountsOnlyWhereItIsInForce) {
  for (const WindowCase& c : kWindows) {
    SCOPED_TRACE(c.about);
    const ModelSpec model = model_from_hf_config(patched(c.base, c.patch), "patched.json");
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (const auto& run : model.runs) runs.emplace_back(run.count, run.block.sliding_window);
    EXPECT_EQ(runs, c.runs);
  }
}

TEST(SpecHfConfig, AConfigThatIsNoObjectIsRefused) {
  EXPECT_EQ(fault_of([] { model_from_hf_config(Json::array(), "x.json"); }).file, "x.json");
}

/// A folder of its own that is removed with its content.
class HfConfigFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "hf_config_XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { fs::remove_all(folder_); }

  void write(const fs::path& file, const std::string& text) const {
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }

  fs::path folder_;
};

TEST_F(HfConfigFiles, AFolderStandsForItsConfigAndGivesTheName) {
  write(folder_ / "my-model.v2" / "config.json", published("gpt2").dump());
  for (const char* path : {"my-model.v2", "my-model.v2/", "my-model.v2/config.json"}) {
    EXPECT_EQ(read_hf_config((folder_ / path).string()).name, "my-model.v2") << path;
  }
}

TEST_F(HfConfigFiles, WhatIsNotThereIsNamed) {
  EXPECT_EQ(fault_of([&] { read_hf_config((folder_ / "none").string()); }).rule,
            "there is no such file");
  EXPECT_EQ(fault_of([&] { read_hf_config(folder_.string()); }).rule, "holds no config.json");
  fs::create_directories(folder_ / "config.json");
  EXPECT_EQ(fault_of([&] { read_hf_config(folder_.string()); }).rule, "is a folder, not a file");
}

TEST_F(HfConfigFiles, BrokenTextIsNamedByLine) {
  const fs::path file = folder_ / "broken.json";
  write(file, "{\"model_type\": \"gpt2\",\n\"n_embd\": 768,\n\"n_embd\": 1024}");
  const InputFault fault = fault_of([&] { read_hf_config(file.string()); });
  EXPECT_EQ(fault.file, file.string());
  EXPECT_EQ(fault.key, "line 3, column 8");
  EXPECT_EQ(fault.value, "n_embd");
}

}  // namespace
}  // namespace planwright
