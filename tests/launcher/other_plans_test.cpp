#include "launcher/other_plans.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "estimator/devices.h"
#include "launcher/config_diff.h"
#include "launcher/targets/accelerate/traits.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/megatron/traits.h"
#include "tests/support/emit_requests.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

ConfigComparison against(const Target& target, const EmitRequest& request, const char* name,
                         const std::string& in_use) {
  const testing::TestFolder folder;
  return compare_config(target.emit(request), folder.put(name, in_use),
                        other_plans(target, request));
}

std::vector<std::string> keys(const std::vector<ConfigDifference>& differences) {
  std::vector<std::string> keys;
  for (const ConfigDifference& each : differences) {
    if (each.in_use) keys.push_back(each.key);
  }
  return keys;
}

/// Keys that a target writes for some plans are what a plan decides; all others are the user's.
TEST(OtherPlans, TellWhatAPlanDecides) {
  using Keys = std::vector<std::string>;
  const auto deepspeed = against(
      targets::deepspeed::target(),
      testing::emit_request("deepspeed", "0.19.8", testing::sharded_candidate()), "ds_config.json",
      R"({"zero_optimization": {"offload_optimizer": {"device": "cpu"}, "mics": 2},
                  "tensor_parallel": {"autotp_size": 2}, "wandb": {"enabled": true}})");
  EXPECT_EQ(keys(deepspeed.differences),
            (Keys{"tensor_parallel", "zero_optimization.offload_optimizer"}));
  EXPECT_EQ(deepspeed.own, (Keys{"wandb", "zero_optimization.mics"}));

  const auto accelerate = against(
      targets::accelerate::target(),
      testing::emit_request("accelerate", "1.15.0", testing::sharded_candidate()),
      "accelerate.yaml", "deepspeed_config: {zero_stage: 2}\ndebug: true\ndowncast_bf16: 'no'\n");
  EXPECT_EQ(keys(accelerate.differences), Keys{"deepspeed_config"}) << "another engine's";
  EXPECT_EQ(accelerate.own, (Keys{"debug", "downcast_bf16"}));
}

TEST(OtherPlans, DifferInPrecisionLossAndStagesToo) {
  using Keys = std::vector<std::string>;
  auto request = testing::emit_request("megatron", "core_v0.17.0", testing::sharded_candidate());
  request.plan.problem.cluster.device = estimator::find_device("H100-SXM5-80GB", "", "");
  const auto megatron = against(
      targets::megatron::target(), request, "megatron_args.yaml",
      "fp8-format: e4m3\nfp8-recipe: delayed\ncross-entropy-loss-fusion: true\n"
      "pipeline-model-parallel-layout: E|t|L\nsequence-parallel: true\nwandb-project: mine\n");
  EXPECT_EQ(keys(megatron.differences),
            (Keys{"cross-entropy-loss-fusion", "fp8-format", "fp8-recipe",
                  "pipeline-model-parallel-layout", "sequence-parallel"}));
  EXPECT_EQ(megatron.own, Keys{"wandb-project"});
}

}  // namespace
}  // namespace planwright::launcher
