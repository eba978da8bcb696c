#include "cli/candidate_input.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"

namespace planwright::cli {
namespace {

using testing::fault_of;

using Pairs = std::vector<std::pair<const char*, const char*>>;

Settings given(Table table, const Pairs& values) {
  Settings settings;
  for (const auto& [name, text] : values) {
    settings.set(table, name, {text, kCommandLine, std::string("--") + name});
  }
  return settings;
}

const std::vector<Knob> kKnobs{{"bucket", {"4", "8"}, ""}, {"prefetch", {"on", "off"}, ""}};

TargetTraits knobs_only() {
  TargetTraits traits;
  traits.name = "some";
  traits.knobs = kKnobs;
  return traits;
}

Candidate one(const Pairs& values, int devices = 8, bool sp_with_tp = false) {
  TargetTraits traits = knobs_only();
  traits.axes.sp_with_tp = sp_with_tp;
  return read_candidate(given(Table::candidate, values), devices, traits);
}

search::SpaceRequest many(const Pairs& values) {
  return read_space(given(Table::space, values), knobs_only());
}

TEST(OneCandidate, IsDataParallelOverAllDevicesByDefault) {
  Candidate expected;
  expected.dp = 8;
  EXPECT_EQ(one({}), expected);
}

TEST(OneCandidate, SharesSequencesAmongTensorRanksWhereTheTargetAlwaysDoes) {
  EXPECT_FALSE(one({{"tp", "2"}}).sp);
  EXPECT_TRUE(one({{"tp", "2"}}, 8, true).sp);
  EXPECT_FALSE(one({}, 8, true).sp) << "one rank has no one to share with";
  EXPECT_FALSE(one({{"tp", "2"}, {"sp", "off"}}, 8, true).sp);
}

TEST(OneCandidate, HasEveryAxisThatIsGiven) {
  Candidate expected;
  expected.tp = 2;
  expected.pp = 2;
  expected.vpp = 3;
  expected.cp = 1;
  expected.ep = 4;
  expected.etp = 2;
  expected.dp = 2;
  expected.zero = 3;
  expected.hsdp = 2;
  expected.micro_batch = 4;
  expected.schedule = Schedule::interleaved;
  expected.sp = true;
  expected.recompute = {RecomputeKind::chunk, 4, {}};
  expected.offload = {.optimizer = true, .params = true, .to = OffloadTo::nvme};
  expected.attention = AttentionKernel::eager;
  expected.loss = LossKernel::chunked;
  expected.knobs = {{"bucket", "8"}, {"prefetch", "off"}};
  EXPECT_EQ(one({{"tp", "2"},
                 {"pp", "2"},
                 {"vpp", "3"},
                 {"cp", "1"},
                 {"ep", "4"},
                 {"etp", "2"},
                 {"zero", "3"},
                 {"hsdp", "2"},
                 {"micro-batch", "4"},
                 {"schedule", "interleaved"},
                 {"sp", "on"},
                 {"recompute", "chunk:4"},
                 {"offload", "optimizer+params"},
                 {"offload-to", "nvme"},
                 {"attention", "eager"},
                 {"loss", "chunked"},
                 {"knobs", "prefetch=off,bucket=8"}}),
            expected);
}

TEST(OneCandidate, SharesTheDevicesThatTheOtherAxesLeave) {
  EXPECT_EQ(one({{"tp", "2"}, {"pp", "2"}}).dp, 2);
  EXPECT_EQ(one({{"tp", "3"}}).dp, 2) << "rounded down: that it is illegal is for the rules to say";
  EXPECT_EQ(one({{"tp", "16"}}).dp, 1);
  EXPECT_EQ(one({{"dp", "5"}}).dp, 5);
}

TEST(OneCandidate, LeavesKnobsAtTheirDefaultOut) {
  EXPECT_TRUE(one({{"knobs", "bucket=4"}}).knobs.empty());
}

TEST(OneCandidate, RefusesWhatIsNoValueOfAnAxis) {
  struct Row {
    const char* axis;
    const char* text;
    const char* rule;
    const char* nearest;
  };
  const Row rows[] = {
      {"tp", "0", "at least 1", ""},
      {"tp", "two", "whole number", ""},
      {"tp", "1,2", "lists are for plan and tune", ""},
      {"tp", "2000000", "at most", ""},
      {"zero", "-1", "at least 0", ""},
      {"zero", "4", "0, 1, 2 or 3", "3"},
      {"sp", "yes", "on or off", ""},
      {"schedule", "zbb", "must be one of gpipe", "zb"},
      {"recompute", "fulll", "must be one of none", "full"},
      {"recompute", "first:0", "number of layers", "first:1"},
      {"offload", "optimizer+activation", "joined by +", "activations"},
      {"offload-to", "disk", "must be one of cpu", ""},
      {"attention", "eagre", "must be one of flash", "eager"},
      {"loss", "fuse", "must be one of plain", "fused"},
      {"knobs", "bukket=1", "not a knob of target some: that has bucket, prefetch", "bucket"},
      {"knobs", "bucket", "NAME=VALUE", ""}};
  for (const Row& row : rows) {
    const InputFault fault = fault_of([&] { one({{row.axis, row.text}}); });
    EXPECT_EQ(fault.key, std::string("--") + row.axis);
    EXPECT_NE(fault.rule.find(row.rule), std::string::npos) << row.text << ": " << fault.rule;
    if (*row.nearest != '\0') {
      EXPECT_EQ(fault.nearest, row.nearest) << row.text;
    }
  }
}

TEST(OneCandidate, RefusesMoreRanksThanCanBeCounted) {
  EXPECT_NE(fault_of([] {
              one({{"tp", "1000000"}, {"dp", "1000000"}});
            }).rule.find("10^9 ranks"),
            std::string::npos);
  EXPECT_NE(fault_of([] {
              many({{"pp", "1000000"}, {"dp", "1,1000000"}});
            }).rule.find("10^9 ranks"),
            std::string::npos);
}

TEST(Space, IsFreeWhereNothingIsGiven) { EXPECT_EQ(many({}), search::SpaceRequest{}); }

TEST(Space, HasTheListsThatAreGiven) {
  search::SpaceRequest expected;
  expected.tp = {1, 2, 4};
  expected.zero = {0, 1};
  expected.sp = {true, false};
  expected.recompute = {{RecomputeKind::none, 0, {}},
                        {RecomputeKind::first, 2, {}},
                        {RecomputeKind::selective, 0, {"attention", "mlp"}}};
  expected.offload = {Offload{}, {.optimizer = true, .to = OffloadTo::nvme}};
  expected.loss = {LossKernel::plain, LossKernel::fused};
  expected.knobs = {{"bucket", {"4", "8"}}, {"prefetch", {"on"}}};
  EXPECT_EQ(many({{"tp", "1,2,4"},
                  {"zero", "0,1"},
                  {"sp", "on,off"},
                  {"recompute", "none,first:2,selective:attention+mlp"},
                  {"offload", "none,optimizer"},
                  {"offload-to", "nvme"},
                  {"loss", "plain,fused"},
                  {"knobs", "bucket=4|8,prefetch=on"}}),
            expected);
}

TEST(Space, TakesFromTheCandidateWhatItDoesNotName) {
  Settings settings = given(Table::candidate, {{"zero", "1"}, {"micro-batch", "4"}});
  settings.set(Table::space, "micro-batch", {"1,2", kCommandLine, "--micro-batch"});
  const search::SpaceRequest request = read_space(settings, knobs_only());
  EXPECT_EQ(request.zero, std::vector<int>{1});
  EXPECT_EQ(request.micro_batch, (std::vector<int>{1, 2}));
}

TEST(Space, RefusesKnobsThatTheTargetDoesNotHaveInTheWordsOfTheFlag) {
  const InputFault unknown = fault_of([] { many({{"knobs", "prefech=on"}}); });
  EXPECT_EQ(unknown.key, "--knobs");
  EXPECT_EQ(unknown.rule,
            "has prefech, which is not a knob of target some: that has bucket, prefetch");
  EXPECT_EQ(unknown.nearest, "prefetch");
  const InputFault value = fault_of([] { many({{"knobs", "bucket=4|9"}}); });
  EXPECT_EQ(value.key, "--knobs");
  EXPECT_EQ(value.rule, "has bucket=9, which must be one of 4 or 8");
  const InputFault none = fault_of([] {
    read_space(given(Table::space, {{"knobs", "foo=1"}}), TargetTraits{});
  });
  EXPECT_NE(none.rule.find("has none"), std::string::npos) << none.rule;
}

TEST(Space, RefusesListsThatAreNone) {
  for (const auto& [axis, text] : Pairs{
           {"tp", "1,1"}, {"tp", "1,,2"}, {"tp", ","}, {"tp", "1,x"}, {"offload-to", "cpu,nvme"}}) {
    EXPECT_EQ(fault_of([&, a = axis, t = text] {
                many({{a, t}});
              }).key,
              std::string("--") + axis)
        << text;
  }
}

}  // namespace
}  // namespace planwright::cli
