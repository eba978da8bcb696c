#include "estimator/models.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "estimator/spec/model_part.h"

namespace planwright::estimator {
namespace {

TEST(ModelPresets, AreSortedAndAllReadable) {
  const auto names = model_presets();
  EXPECT_GE(names.size(), 5u);
  EXPECT_TRUE(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    const ModelSpec model = find_model(name, "command line", "--model");
    EXPECT_EQ(model.name, name);
    EXPECT_GT(parameter_counts(model).total, 1'000'000) << name;
  }
}

TEST(ModelPresets, ComeBackFromTheirJson) {
  for (const std::string& name : model_presets()) {
    const ModelSpec model = find_model(name, "command line", "--model");
    EXPECT_EQ(model_spec_from_json(to_json(model), name), model) << name;
    const ModelOrigin origin = model_origin(name);
    EXPECT_FALSE(origin.source.empty()) << name;
  }
}

/// Whatever the cut: no element twice, none lost.
TEST(ModelPresets, RanksPartsAreTheWhole) {
  for (const char* name : {"llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite", "jamba-v0.1",
                           "mamba-2.8b", "gpt-oss-20b", "bloom-560m", "phi-2"}) {
    const ModelSpec model = find_model(name, "", "");
    std::map<std::string, std::int64_t> cut;
    std::map<std::string, std::int64_t> whole;
    for (int rank = 0; rank < 2; ++rank) {
      ModelPart part = whole_model(model);
      part.tp = 2;
      part.tp_rank = rank;
      for (const PartTensor& each : part_tensors(model, part)) {
        const std::int64_t numel = each.tensor.numel();
        cut[each.tensor.name] += numel;
        std::int64_t all = 1;
        for (const std::int64_t extent : each.whole) all *= extent;
        whole[each.tensor.name] = numel == all ? 2 * all : all;  // or held by both
      }
    }
    for (const auto& [tensor, numel] : cut) EXPECT_EQ(numel, whole[tensor]) << name << tensor;
  }
}

/// Counts of the published checkpoints.
TEST(ModelPresets, HaveThePublishedParameterCounts) {
  const auto count = [](const char* name) {
    return parameter_counts(find_model(name, "command line", "--model")).total;
  };
  EXPECT_EQ(count("gpt2"), 124'439'808);
  EXPECT_EQ(count("llama-2-7b"), 6'738'415'616);
  EXPECT_EQ(count("llama-3-8b"), 8'030'261'248);
  EXPECT_EQ(count("mistral-7b"), 7'241'732'096);
}

TEST(FindModel, NamesTheNearestPresetWhenNothingIsThere) {
  try {
    find_model("llama-2-7x", "study.toml", "[job] model");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_EQ(error.fault().file, "study.toml");
    EXPECT_EQ(error.fault().key, "[job] model");
    EXPECT_EQ(error.fault().nearest, "llama-2-7b");
  }
}

TEST(FindModel, TakesCapitalsAndTheNameOnHuggingFace) {
  for (const char* name : {"LLAMA-2-7B", "meta-llama/Llama-2-7b-hf", "META-LLAMA/llama-2-7b-hf"}) {
    EXPECT_EQ(find_model(name, "", "").name, "llama-2-7b") << name;
  }
}

TEST(FindModel, ReadsAFileWhenThePathExists) {
  const std::string path = std::string(PLANWRIGHT_SOURCE_DIR) + "/estimator/data/models/gpt2.json";
  EXPECT_EQ(parameter_counts(find_model(path, "command line", "--model")).total, 124'439'808);
}

}  // namespace
}  // namespace planwright::estimator
