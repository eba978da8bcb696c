#include "launcher/missing_script.h"

#include <gtest/gtest.h>

#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

std::string missing(std::vector<std::string> words) {
  return missing_script({.words = std::move(words)}).value_or("");
}

TEST(MissingScript, IsTheFirstWordThatEndsAsOneAndIsNoFile) {
  EXPECT_EQ(missing({"torchrun", "--nproc-per-node=2", "train.py", "other.py"}), "train.py");
  EXPECT_EQ(missing({"/opt/venv/bin/python3.11", "-u", "train.py"}), "train.py");
  EXPECT_EQ(missing({"accelerate", "launch", "sub/train.py"}), "sub/train.py");
  EXPECT_EQ(missing({"train.py", "--config", "a.yaml"}), "train.py") << "a framework's";
  EXPECT_EQ(missing({"/nowhere/train.py"}), "/nowhere/train.py");
}

TEST(MissingScript, IsNoneThatIsThere) {
  const testing::TestFolder folder;
  EXPECT_EQ(missing({"python", folder.put("train.py", ""), "other.py"}), "");
}

TEST(MissingScript, IsNoneWhereNothingOfThisHostCanTell) {
  EXPECT_EQ(missing({}), "");
  EXPECT_EQ(missing({"./train", "{micro_batch}"}), "");
  EXPECT_EQ(missing({"docker", "run", "image", "python", "/workspace/train.py"}), "");
  EXPECT_EQ(missing({"sh", "-c", "cd sub && python train.py"}), "");
  EXPECT_EQ(missing({"python", "-m", "package.train", "settings.py"}), "");
  EXPECT_EQ(missing({"torchrun", "--module", "package.train", "settings.py"}), "");
  EXPECT_EQ(missing({"python", "-c", "import package", "settings.py"}), "");
  EXPECT_EQ(missing({"python", "train_zero{zero}.py"}), "") << "it depends on the plan";
  EXPECT_EQ(missing({"--job.config_file", "settings.py"}), "") << "of a framework's own script";
}

}  // namespace
}  // namespace planwright::launcher
