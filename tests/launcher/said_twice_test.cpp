#include "launcher/said_twice.h"

#include <gtest/gtest.h>

namespace planwright::launcher {
namespace {

using Words = std::vector<std::string>;

Words twice(const Words& of_plan, const Words& own) {
  LaunchConfig config;
  config.command = of_plan;
  config.command.insert(config.command.end(), own.begin(), own.end());
  UserCommand user;
  user.words = own;
  return said_twice(config, user);
}

TEST(SaidTwice, AreOptionsOfThePlanAmongTheUsersOwn) {
  const Words plan{"torchrun", "--nproc-per-node", "8", "train.py", "--tp", "2", "--micro_batch=4"};
  EXPECT_EQ(twice(plan, {"--lr", "3e-4", "--tp", "4"}), Words{"--tp"});
  EXPECT_EQ(twice(plan, {"--micro-batch=1"}), Words{"--micro-batch"}) << "spelled otherwise";
  EXPECT_EQ(twice(plan, {"--lr=1", "--lr=2", "tp", "--"}), Words{}) << "twice, but both their own";
}

TEST(SaidTwice, AreOptionsOfAFilesTables) {
  LaunchConfig config;
  config.files = {{"out/train.toml", "[training]\nseq_len = 4096\n"}};
  UserCommand user;
  user.words = {"--training.seq_len", "8", "--training.steps=2", "--metrics.log_freq", "1"};
  EXPECT_EQ(said_twice(config, user), Words{"--training.seq_len"});
}

}  // namespace
}  // namespace planwright::launcher
