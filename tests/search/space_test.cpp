#include "search/space.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "estimator/spec/error.h"
#include "search/evidence.h"
#include "tests/support/decision_samples.h"
#include "tests/support/fake_traits.h"

namespace planwright::search {
namespace {

using testing::fake_problem;
using testing::fake_traits;
using testing::tiny_llama;

/// With a global batch of 8.
Problem four_devices() { return fake_problem(tiny_llama(), 4, Precision::bf16); }

std::string lines(const std::vector<Candidate>& candidates) {
  std::string text;
  for (const Candidate& each : candidates) {
    text += fmt::format("dp {} zero {} micro-batch {} {}", each.dp, each.zero, each.micro_batch,
                        recompute_text(each.recompute));
    for (const auto& [name, value] : each.knobs) text += fmt::format(" {}={}", name, value);
    text += "\n";
  }
  return text;
}

TEST(Space, FreeAxesTakeWhatTheTargetSupportsInCanonicalOrder) {
  const Space space = enumerate(four_devices(), fake_traits(), {});
  EXPECT_EQ(lines(space.legal),
            "dp 4 zero 0 micro-batch 1 none\n"
            "dp 4 zero 0 micro-batch 1 full\n"
            "dp 4 zero 0 micro-batch 2 none\n"
            "dp 4 zero 0 micro-batch 2 full\n"
            "dp 4 zero 1 micro-batch 1 none\n"
            "dp 4 zero 1 micro-batch 1 full\n"
            "dp 4 zero 1 micro-batch 2 none\n"
            "dp 4 zero 1 micro-batch 2 full\n");
  EXPECT_EQ(space.counted, 8);
  EXPECT_TRUE(space.dropped.empty());
}

TEST(Space, TheOrderAndTheRepetitionsOfARequestDoNotMatter) {
  SpaceRequest request;
  request.micro_batch = {2, 1, 2};
  request.zero = {1, 0, 1, 0};
  const Space space = enumerate(four_devices(), fake_traits(), request);
  EXPECT_EQ(space.legal, enumerate(four_devices(), fake_traits(), {}).legal);
  EXPECT_EQ(space.counted, 8);
}

TEST(Space, AListRestrictsItsAxis) {
  SpaceRequest request;
  request.zero = {1};
  request.recompute = {Recompute{}};
  const Space space = enumerate(four_devices(), fake_traits(), request);
  EXPECT_EQ(lines(space.legal),
            "dp 4 zero 1 micro-batch 1 none\n"
            "dp 4 zero 1 micro-batch 2 none\n");
}

TEST(Space, KnobsStayAtTheirDefaultUnlessListed) {
  SpaceRequest request;
  request.zero = {0};
  request.micro_batch = {1};
  request.recompute = {Recompute{}};
  request.knobs["buckets"] = {"large", "small"};
  EXPECT_EQ(lines(enumerate(four_devices(), testing::fake_traits_with_knobs(), request).legal),
            "dp 4 zero 0 micro-batch 1 none\n"
            "dp 4 zero 0 micro-batch 1 none buckets=large\n");
  request.knobs["overlap"] = {"on"};
  EXPECT_EQ(lines(enumerate(four_devices(), testing::fake_traits_with_knobs(), request).legal),
            "dp 4 zero 0 micro-batch 1 none overlap=on\n"
            "dp 4 zero 0 micro-batch 1 none overlap=on buckets=large\n");
}

TEST(Space, EveryIllegalCandidateIsCountedUnderTheFirstRuleItBreaks) {
  SpaceRequest request;
  request.dp = {2, 4};           // 2: world_size
  request.zero = {0, 3};         // 3: zero_supported, which comes first
  request.micro_batch = {1, 3};  // 3: global_batch_divides
  request.recompute = {Recompute{}};
  const Space space = enumerate(four_devices(), fake_traits(), request);
  EXPECT_EQ(lines(space.legal), "dp 4 zero 0 micro-batch 1 none\n");
  const std::map<std::string, std::int64_t> expected{
      {"zero_supported", 4}, {"world_size", 2}, {"global_batch_divides", 1}};
  EXPECT_EQ(space.dropped, expected);
  EXPECT_EQ(space.counted, 8);
  EXPECT_EQ(space.examples.size(), 3u);
  EXPECT_EQ(space.examples.at("world_size").text,
            "tp 1 x pp 1 x cp 1 x dp 2 is 2 ranks, and there are 4 devices");
}

TEST(Space, ATargetsOwnRulesDropAfterTheGeneralOnes) {
  TargetTraits traits = fake_traits();
  traits.rules.push_back({"no_big_micro_batch",
                          [](const Problem&, const Candidate& c) { return c.micro_batch > 1; },
                          "a micro-batch of {micro_batch} is too big for {target}", "use 1", ""});
  const Space space = enumerate(four_devices(), traits, {});
  EXPECT_EQ(space.dropped.at("no_big_micro_batch"), 4);
  EXPECT_EQ(space.legal.size(), 4u);
}

TEST(Space, AGlobalBatchThatTheRanksDoNotDivideIsCountedOnceForEachPlan) {
  Problem problem = four_devices();
  problem.workload.global_batch = 6;
  const Space space = enumerate(problem, fake_traits(), {});
  EXPECT_TRUE(space.legal.empty());
  EXPECT_EQ(space.counted, 4);
  EXPECT_EQ(space.dropped.at("dp_divides_global_batch"), 4);
}

/// tp, pp, vpp, cp, ep and etp, at zero 0 and one micro-batch.
std::vector<std::array<int, 6>> free_layouts(const Problem& problem) {
  TargetTraits traits = fake_traits();
  SupportedAxes& axes = traits.axes;
  axes.tp = axes.pp = axes.cp = axes.ep = axes.etp = axes.vpp = {1, 2, 4, 8};
  axes.schedule = {Schedule::one_f_one_b, Schedule::interleaved};
  SpaceRequest request;
  request.zero = {0};
  request.micro_batch = {1};
  request.recompute = {Recompute{}};
  request.sp = {false};
  std::vector<std::array<int, 6>> layouts;
  for (const Candidate& c : enumerate(problem, traits, request).legal) {
    layouts.push_back({c.tp, c.pp, c.vpp, c.cp, c.ep, c.etp});
  }
  return layouts;
}

/// Of four devices and a model of two blocks: what cannot be is not counted, however many values
/// the target has of an axis.
TEST(Space, FreeDegreesGoIntoTheDevicesAndTheModel) {
  Problem problem = four_devices();
  problem.model.runs[0].count = 2;
  for (const auto& [tp, pp, vpp, cp, ep, etp] : free_layouts(problem)) {
    EXPECT_EQ(4 % (tp * pp * cp), 0);
    EXPECT_LE(pp * vpp, std::max(pp, 2));
    EXPECT_EQ(ep * etp, 1);
  }
  problem.model.runs[0].block.moe = MoeSpec{.experts = 8, .top_k = 2, .ffn = 64};
  bool split = false;
  for (const auto& [tp, pp, vpp, cp, ep, etp] : free_layouts(problem)) {
    EXPECT_EQ(4 / pp % (ep * etp), 0);
    split = split || (ep == 2 && etp == 2);
  }
  EXPECT_TRUE(split);
}

/// One data rank has every stage alike, but for what can be offloaded in it.
TEST(Space, ALonelyRankHasTheStagesThatItOffloadsIn) {
  TargetTraits traits = fake_traits();
  traits.axes.recompute = {Recompute{}};
  traits.axes.offload = {Offload{}, {.optimizer = true}};
  Problem one = fake_problem(tiny_llama(), 1, Precision::bf16);
  one.cluster.device.kind = DeviceKind::cuda;
  SpaceRequest request;
  request.micro_batch = {8};
  const Space space = enumerate(one, traits, request);
  std::vector<std::string> found;
  for (const Candidate& each : space.legal) {
    found.push_back(fmt::format("{} {}", each.zero, offload_text(each.offload)));
  }
  EXPECT_EQ(found, (std::vector<std::string>{"0 none", "0 optimizer", "1 optimizer"}));
}

TEST(Space, FreeMicroBatchesAreAllTheDivisors) {
  Problem problem = four_devices();
  problem.workload.global_batch = 144;
  SpaceRequest request;
  request.zero = {0};
  request.recompute = {Recompute{}};
  std::vector<int> found;
  for (const Candidate& each : enumerate(problem, fake_traits(), request).legal) {
    found.push_back(each.micro_batch);
  }
  EXPECT_EQ(found, (std::vector<int>{1, 2, 3, 4, 6, 9, 12, 18, 36}));
}

struct WrongRequest {
  const char* what;
  std::function<void(SpaceRequest&)> spoil;
  const char* key;
  const char* nearest;
};

TEST(Space, WithoutAGlobalBatchStepsAreComparedByTheirSequences) {
  Problem problem = four_devices();
  EXPECT_TRUE(enumerate(problem, fake_traits(), {}).shares.empty());
  problem.target = kCommandTarget;
  problem.workload.global_batch = 0;
  SpaceRequest request;
  request.zero = {0};
  request.recompute = {Recompute{}};
  const Space space = enumerate(problem, fake_traits(), request);
  ASSERT_EQ(space.legal.size(), 16u) << "two to each doubling, up to 256";
  ASSERT_EQ(space.shares.size(), 16u);
  EXPECT_EQ(space.legal.back().micro_batch, 256);
  EXPECT_EQ(space.shares.back(), 1);
  EXPECT_EQ(space.shares[0], 1.0 / 256);
  EXPECT_EQ(space.comparable(0, 0.5), 128);

  std::vector<Trial> history{testing::measured(space, 0, 1), testing::measured(space, 1, 1.5)};
  const Evidence evidence = gather(space, history, {});
  EXPECT_EQ(evidence.measured, (std::vector<std::size_t>{1, 0}))
      << "half as long again for twice as many";
  EXPECT_DOUBLE_EQ(evidence.best_time->value, 1.5 * 128);
}

TEST(Space, ARequestForWhatDoesNotExistIsRefusedByName) {
  const WrongRequest cases[] = {
      {"a size of zero",
       [](SpaceRequest& r) {
         r.dp = {2, 0};
       },
       "[space] dp", "1"},
      {"a negative size", [](SpaceRequest& r) { r.micro_batch = {-1}; }, "[space] micro_batch",
       "1"},
      {"an unknown knob", [](SpaceRequest& r) { r.knobs["overlop"] = {"on"}; }, "[space] overlop",
       "overlap"},
      {"an unknown value of a knob", [](SpaceRequest& r) { r.knobs["buckets"] = {"larg"}; },
       "[space] buckets", "large"},
  };
  for (const WrongRequest& each : cases) {
    SCOPED_TRACE(each.what);
    SpaceRequest request;
    each.spoil(request);
    try {
      enumerate(four_devices(), testing::fake_traits_with_knobs(), request);
      ADD_FAILURE() << "was accepted";
    } catch (const InputError& error) {
      EXPECT_EQ(error.fault().key, each.key);
      EXPECT_EQ(error.fault().nearest, each.nearest);
    }
  }
}

TEST(Space, HoldsWhatNoRuleRefuses) {
  const Problem problem = four_devices();
  for (const Candidate& each : enumerate(problem, fake_traits(), {}).legal) {
    EXPECT_EQ(broken_rule(problem, fake_traits(), each), std::nullopt) << describe(each);
  }
}

}  // namespace
}  // namespace planwright::search
