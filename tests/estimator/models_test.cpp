#include "estimator/models.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "estimator/spec/error.h"

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

TEST(FindModel, ReadsAFileWhenThePathExists) {
  const std::string path = std::string(PLANWRIGHT_SOURCE_DIR) + "/estimator/data/models/gpt2.json";
  EXPECT_EQ(parameter_counts(find_model(path, "command line", "--model")).total, 124'439'808);
}

}  // namespace
}  // namespace planwright::estimator
