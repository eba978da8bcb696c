#include <gtest/gtest.h>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/quantities.h"
#include "estimator/spec/model_part.h"
#include "launcher/targets/megatron/traits.h"

/// What experts in buffers of their own take of a step's time, wherever they are.
namespace planwright {
namespace {

constexpr int kDevices = 8;

estimator::StageQuantities stage_with(int ep) {
  const TargetTraits& traits = targets::megatron::traits();
  Problem p;
  p.target = traits.name;
  p.model = estimator::find_model("mixtral-8x7b", "", "");
  p.cluster = estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", ""), kDevices,
                                        kDevices);
  p.workload.seq = 4096;
  p.workload.global_batch = kDevices;
  p.workload.recipe = *traits.recipe(Precision::bf16);
  Candidate c;
  c.dp = kDevices;
  c.ep = ep;
  c.zero = 1;
  return estimator::quantify(p, traits, c).stages.front();
}

double bytes(const std::vector<estimator::Messages>& all) {
  double sum = 0;
  for (const estimator::Messages& each : all) sum += each.bytes;
  return sum;
}

/// A rank has 1 / 8 of all states, in whichever buffers.
TEST(ExpertTime, TheOptimizerGoesOverAllStates) {
  const double alone = stage_with(1).optimizer_bytes;
  EXPECT_GT(alone, 0);
  for (const int ep : {2, 4, 8}) {
    EXPECT_NEAR(stage_with(ep).optimizer_bytes / alone, 1, 0.001) << ep;
  }
}

/// Of mixtral's 46.7e9 parameters 45.1e9 are experts': 8 ranks sum fp32 gradients of them all where
/// each has all experts, 4 those of half of them, and with an expert on each rank of none.
TEST(ExpertTime, EachGroupSumsTheExpertsThatItHas) {
  const auto summed = [](int ep) { return bytes(stage_with(ep).beside_last_backward); };
  const double experts = 4.0 * 45.1e9;
  EXPECT_NEAR(summed(1) - summed(8), experts, 0.01 * experts);
  EXPECT_NEAR(summed(2) - summed(8), experts / 2, 0.01 * experts);
}

}  // namespace
}  // namespace planwright
