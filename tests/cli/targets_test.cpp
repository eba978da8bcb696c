#include "cli/targets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "estimator/calibrate.h"
#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/price.h"
#include "search/space.h"
#include "tests/support/fake_traits.h"

/// Every target of the registry, planned and estimated as the verbs do.
namespace planwright::cli {
namespace {

const launcher::Target& target_named(const std::string& name) {
  return *find_target({name, "f", "k"});
}

Problem with_target(Problem problem, const TargetTraits& traits) {
  problem.workload.precision = Precision::bf16;
  problem.workload.recipe = traits.recipe(Precision::bf16).value();
  problem.target = traits.name;
  problem.target_version = traits.version;
  problem.traits_revision = traits.revision;
  return problem;
}

ClusterSpec gpus(int count) {
  return estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", "--device"), count,
                                   count);
}

/// docs/demo's model over two ranks, of CPUs where the target trains there, 8 sequences of 32 a
/// step.
Problem small_problem(const TargetTraits& traits) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 2, Precision::fp32);
  if (traits.name.starts_with("megatron") || traits.name == "nanotron") problem.cluster = gpus(2);
  problem.model = estimator::find_model(PLANWRIGHT_SOURCE_DIR "/docs/demo/llama-5m.json", "", "");
  problem.workload.seq = 32;
  return with_target(problem, traits);
}

Problem llama_8b_on_eight(const TargetTraits& traits) {
  Problem problem = testing::fake_problem(testing::tiny_llama(), 8, Precision::fp32);
  problem.model = estimator::find_model("llama-3.1-8b", "", "");
  problem.cluster = gpus(8);
  problem.workload.seq = 4096;
  problem.workload.global_batch = 64;
  return with_target(problem, traits);
}

struct SpaceCase {
  const char* target;
  std::set<int> tp, pp, zero;
  std::set<std::string> recompute;
};

class TargetSpaces : public ::testing::TestWithParam<SpaceCase> {};

INSTANTIATE_TEST_SUITE_P(
    OnTwoRanks, TargetSpaces,
    ::testing::Values(
        SpaceCase{"deepspeed", {1, 2}, {1}, {0, 1, 2, 3}, {"none", "full"}},
        SpaceCase{"accelerate", {1}, {1}, {0}, {"none", "full"}},
        SpaceCase{"hf-trainer", {1}, {1}, {0}, {"none", "full"}},
        SpaceCase{"fsdp",
                  {1},
                  {1},
                  {0, 2, 3},
                  {"none", "full", "alternate:2", "alternate:3", "first:1", "first:2"}},
        SpaceCase{"torchtitan", {1}, {1}, {0, 2, 3}, {"none", "full", "alternate:2"}},
        SpaceCase{"pytorch", {1}, {1}, {0, 3}, {"none", "full"}},
        SpaceCase{
            "megatron-deepspeed", {1, 2}, {1, 2}, {0, 1}, {"none", "full", "chunk:2", "chunk:4"}},
        SpaceCase{"megatron",
                  {1, 2},
                  {1, 2},
                  {0, 1, 2, 3},
                  {"none", "selective", "selective:mlp", "full", "chunk:2", "chunk:4", "first:1",
                   "first:2"}},
        SpaceCase{"nanotron", {1, 2}, {1, 2}, {0, 1}, {"none", "full"}}),
    [](const auto& test) {
      std::string name = test.param.target;
      name.erase(std::remove(name.begin(), name.end(), '-'), name.end());
      return name;
    });

TEST_P(TargetSpaces, HoldTheAxesThatTheTargetHas) {
  const launcher::Target& target = target_named(GetParam().target);
  const search::Space space = search::enumerate(small_problem(target.traits), target.traits, {});
  SpaceCase found{GetParam().target, {}, {}, {}, {}};
  for (const Candidate& candidate : space.legal) {
    found.tp.insert(candidate.tp);
    found.pp.insert(candidate.pp);
    found.zero.insert(candidate.zero);
    found.recompute.insert(recompute_text(candidate.recompute));
  }
  EXPECT_EQ(found.tp, GetParam().tp);
  EXPECT_EQ(found.pp, GetParam().pp);
  EXPECT_EQ(found.zero, GetParam().zero);
  EXPECT_EQ(found.recompute, GetParam().recompute);
}

/// Every plan that can be found is priced, and written.
TEST_P(TargetSpaces, AreEstimatedAndEmittedToTheLastCandidate) {
  const launcher::Target& target = target_named(GetParam().target);
  const Problem problem = small_problem(target.traits);
  const estimator::Pricer pricer(problem, target.traits,
                                 estimator::prior_calibration(problem, target.traits, {}));
  estimator::QuantityTable table(problem, target.traits);
  for (const Candidate& candidate : search::enumerate(problem, target.traits, {}).legal) {
    const estimator::Figures figures = pricer.figures(table.quantify(candidate));
    EXPECT_GT(figures.allocated.value, 0) << describe(candidate);
    EXPECT_GT(figures.step_time.value, 0) << describe(candidate);
    launcher::EmitRequest request;
    request.plan = {problem, candidate, {}};
    EXPECT_FALSE(target.emit(request).files.empty()) << describe(candidate);
  }
}

TEST(Targets, AreNamedOnce) {
  const std::vector<std::string> names = target_names();
  EXPECT_EQ(names, (std::vector<std::string>{"builtin", "deepspeed", "accelerate", "hf-trainer",
                                             "fsdp", "torchtitan", "megatron", "megatron-deepspeed",
                                             "nanotron", "pytorch", "command"}));
}

Estimate estimate_of(const std::string& name, const Candidate& candidate) {
  const TargetTraits& traits = target_named(name).traits;
  const Problem problem = llama_8b_on_eight(traits);
  return estimator::estimate(problem, traits, candidate,
                             estimator::prior_calibration(problem, traits, {}));
}

/// The states are 16 bytes a parameter over 8 ranks, 18 with 16-bit weights beside masters.
TEST(Targets, FitAnEightBillionModelOnEightDevicesWithZero3) {
  const double n = 8030261248;
  const std::map<std::string, double> bytes{
      {"deepspeed", 18}, {"accelerate", 16}, {"hf-trainer", 16}, {"fsdp", 16}, {"torchtitan", 16}};
  for (const auto& [name, each] : bytes) {
    const Candidate candidate = testing::data_parallel(8, 3, 1, RecomputeKind::full);
    const Estimate estimate = estimate_of(name, candidate);
    EXPECT_EQ(estimate.verdict, Verdict::fits) << name << ": " << estimate.reason;
    const double peak = static_cast<double>(estimate.peak().accounts.allocated().value);
    EXPECT_GT(peak, (each - 4) * n / 8) << name << ": gradients may be there or not";
    EXPECT_LT(peak, each * n / 8 + 25e9) << name;
  }
}

TEST(Targets, SayWhyAnEightBillionModelDoesNotFitWithZero0) {
  const char* const next[] = {"zero 1", "zero 2", "zero 2", "zero 2", "zero 2"};
  std::size_t i = 0;
  for (const char* name : {"deepspeed", "accelerate", "hf-trainer", "fsdp", "torchtitan"}) {
    const Estimate estimate =
        estimate_of(name, testing::data_parallel(8, 0, 1, RecomputeKind::full));
    EXPECT_EQ(estimate.verdict, Verdict::too_large) << name;
    EXPECT_NE(estimate.reason.find(next[i]), std::string::npos) << name << ": " << estimate.reason;
    ++i;
  }
}

/// 6 bytes a parameter, and 12 over the data ranks.
TEST(Targets, FitAnEightBillionModelOnEightDevicesWithMegatronsOptimizer) {
  const double n = 8030261248;
  const Estimate sharded =
      estimate_of("megatron", testing::data_parallel(8, 1, 1, RecomputeKind::full));
  EXPECT_EQ(sharded.verdict, Verdict::fits) << sharded.reason;
  const double peak = static_cast<double>(sharded.peak().accounts.allocated().value);
  EXPECT_GT(peak, 7.5 * n);
  EXPECT_LT(peak, 7.5 * n + 15e9);

  const Estimate whole =
      estimate_of("megatron", testing::data_parallel(8, 0, 1, RecomputeKind::full));
  EXPECT_EQ(whole.verdict, Verdict::too_large);
  EXPECT_NE(whole.reason.find("zero 1"), std::string::npos) << whole.reason;
}

}  // namespace
}  // namespace planwright::cli
