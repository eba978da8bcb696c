#include "studies/optuna_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "sample.h"

namespace planwright::studies {
namespace {

using testing::failed;
using testing::measured;
using testing::ran_full;

constexpr const char* kDegree =
    R"({"name": "IntDistribution", "attributes": {"log": true, "step": 1, "low": 1, "high": 65536}})";

// Changing any of these makes every study that exists unreadable or useless to Optuna's samplers.
TEST(OptunaParameters, AreTheSameInEveryStudyForEver) {
  const std::vector<OptunaParameter> expected{
      {"tp", 1, kDegree},
      {"pp", 1, kDegree},
      {"vpp", 1, kDegree},
      {"cp", 1, kDegree},
      {"ep", 1, kDegree},
      {"etp", 1, kDegree},
      {"zero", 0,
       R"({"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 3}})"},
      {"hsdp", 1, kDegree},
      {"sp", 0, R"({"name": "CategoricalDistribution", "attributes": {"choices": ["off", "on"]}})"},
      {"micro_batch", 1, kDegree},
      {"schedule", 1,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["gpipe", "1f1b", )"
       R"("interleaved", "zb"]}})"},
      {"recompute", 0,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["none", "selective", )"
       R"("op", "full", "chunk", "alternate", "first"]}})"},
      {"recompute_k", 0,
       R"({"name": "IntDistribution", "attributes": {"log": false, "step": 1, "low": 0, "high": 1024}})"},
      {"offload", 0,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["none", "optimizer", )"
       R"("params", "activations", "optimizer+params", "optimizer+activations", )"
       R"("params+activations", "optimizer+params+activations"]}})"},
      {"offload_to", 0,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["cpu", "nvme"]}})"},
      {"attention", 0,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["flash", "eager"]}})"},
      {"loss", 0,
       R"({"name": "CategoricalDistribution", "attributes": {"choices": ["plain", "fused", )"
       R"("chunked"]}})"},
  };
  EXPECT_EQ(optuna_parameters(Candidate{}), expected);
}

std::map<std::string, double> stored(const Candidate& candidate) {
  std::map<std::string, double> values;
  for (const auto& each : optuna_parameters(candidate)) values[each.name] = each.internal;
  return values;
}

TEST(OptunaParameters, HoldEveryAxisOfACandidate) {
  Candidate candidate;
  candidate.tp = 2, candidate.pp = 3, candidate.vpp = 4, candidate.cp = 5, candidate.ep = 6;
  candidate.etp = 7, candidate.zero = 3, candidate.hsdp = 8, candidate.sp = true;
  candidate.micro_batch = 65536;
  candidate.schedule = Schedule::zero_bubble;
  candidate.recompute = {RecomputeKind::chunk, 1024, {}};
  candidate.offload = {true, false, true, OffloadTo::nvme};
  candidate.attention = AttentionKernel::eager;
  candidate.loss = LossKernel::chunked;
  const std::map<std::string, double> expected{{"tp", 2},         {"pp", 3},
                                               {"vpp", 4},        {"cp", 5},
                                               {"ep", 6},         {"etp", 7},
                                               {"zero", 3},       {"hsdp", 8},
                                               {"sp", 1},         {"micro_batch", 65536},
                                               {"schedule", 3},   {"offload", 5},
                                               {"recompute", 4},  {"recompute_k", 1024},
                                               {"offload_to", 1}, {"attention", 1},
                                               {"loss", 2}};
  EXPECT_EQ(stored(candidate), expected);
}

TEST(OptunaParameters, SpellEachOffloadAtItsOwnIndex) {
  const Json distribution = Json::parse(optuna_parameters(Candidate{})[13].distribution);
  const Json& choices = distribution["attributes"]["choices"];
  for (int bits = 0; bits < 8; ++bits) {
    Candidate candidate;
    candidate.offload = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, OffloadTo::cpu};
    const auto index = static_cast<std::size_t>(stored(candidate)["offload"]);
    EXPECT_EQ(choices[index], offload_text(candidate.offload));
  }
}

TEST(OptunaParameters, RefuseAnAxisOutsideItsDistribution) {
  struct Case {
    void (*set)(Candidate&);
    const char* message;
  };
  for (const Case& each : {
           Case{[](Candidate& c) { c.tp = 0; }, "tp = 0: must lie between 1 and 65536"},
           Case{[](Candidate& c) { c.micro_batch = 65537; }, "micro_batch = 65537"},
           Case{[](Candidate& c) { c.zero = 4; }, "zero = 4: must lie between 0 and 3"},
           Case{[](Candidate& c) { c.recompute.k = 1025; }, "recompute_k = 1025"},
       }) {
    Candidate candidate;
    each.set(candidate);
    const auto message = testing::input_error([&] { optuna_parameters(candidate); });
    EXPECT_NE(message.find(each.message), std::string::npos) << message;
  }
}

Trial trial_with(Outcome outcome, ScopeKind scope = ScopeKind::full) {
  Trial trial;
  trial.scope.kind = scope;
  trial.outcome = std::move(outcome);
  return trial;
}

Outcome fragmented() {
  OutOfMemory full = *ran_full().out_of_memory();
  full.allocated = Bytes{100};
  return {full, {}};
}

Outcome reserved_full() {
  OutOfMemory full = *ran_full().out_of_memory();
  full.reserved = Bytes{990};
  return {full, {}};
}

TEST(OptunaResults, FollowTheOutcome) {
  const Bytes capacity{8000};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    const char* name;
    Trial trial;
    OptunaResult expected;
  };
  const std::vector<Case> cases{
      {"fits", trial_with(measured(50, Bytes{7000})), {TrialState::complete, 50, Bytes{-1000}}},
      {"fits to the byte",
       trial_with(measured(50, capacity)),
       {TrialState::complete, 50, Bytes{0}}},
      {"ran above capacity",
       trial_with(measured(50, Bytes{8001})),
       {TrialState::pruned, {}, Bytes{1}}},
      {"a part of the job",
       trial_with(measured(50, Bytes{7000}), ScopeKind::truncated),
       {TrialState::pruned, {}, Bytes{-1000}}},
      {"no throughput", trial_with(measured(nan, Bytes{7000})), {TrialState::fail, {}, {}}},
      {"stood still", trial_with(measured(0, Bytes{7000})), {TrialState::fail, {}, {}}},
      {"ran full", trial_with(ran_full()), {TrialState::pruned, {}, Bytes{200}}},
      {"ran full in what was reserved",
       trial_with(reserved_full()),
       {TrialState::pruned, {}, Bytes{290}}},
      {"ran full by fragmentation", trial_with(fragmented()), {TrialState::pruned, {}, Bytes{1}}},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(optuna_result(each.trial, capacity), each.expected) << each.name;
  }
}

TEST(OptunaResults, AreFailForEveryOtherEnd) {
  for (const OutcomeKind kind :
       {OutcomeKind::host_out_of_memory, OutcomeKind::crashed, OutcomeKind::hung,
        OutcomeKind::timed_out, OutcomeKind::environment}) {
    const OptunaResult expected{TrialState::fail, {}, {}};
    EXPECT_EQ(optuna_result(trial_with(failed(kind)), Bytes{8000}), expected) << word(kind);
  }
}

std::string shown(const Attributes& attributes, const std::string& key) {
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const auto& each) { return each.first == key; });
  return found == attributes.end() ? "absent" : found->second.dump();
}

TEST(OptunaAttributes, ShowWhatIsNoParameter) {
  Proposal proposal = testing::sample_proposal();
  const Attributes plain = proposal_attributes(proposal);
  EXPECT_EQ(shown(plain, "planwright:dp"), "2");
  EXPECT_EQ(shown(plain, "planwright:scope"), R"("full")");
  EXPECT_EQ(shown(plain, "planwright:why"), R"("highest expected improvement")");
  EXPECT_NE(shown(plain, "planwright:predicted").find(R"("allocated_bytes":8000)"),
            std::string::npos);
  EXPECT_EQ(shown(plain, "planwright:knobs"), "absent");
  EXPECT_EQ(shown(plain, "planwright:stages"), "absent");

  proposal.candidate.recompute = {RecomputeKind::selective, 0, {"attention", "mlp"}};
  proposal.candidate.knobs = {{"overlap", "on"}};
  proposal.candidate.stages = {{3, {RecomputeKind::first, 2, {}}, {true, false, false}}};
  const Attributes full = proposal_attributes(proposal);
  EXPECT_EQ(shown(full, "planwright:recompute_modules"), R"(["attention","mlp"])");
  EXPECT_EQ(shown(full, "planwright:knobs"), R"({"overlap":"on"})");
  EXPECT_EQ(shown(full, "planwright:stages"),
            R"([{"blocks":3,"recompute":"first:2","offload":"optimizer"}])");
}

TEST(OptunaAttributes, SayHowATrialEnded) {
  const Attributes ok = outcome_attributes(measured(50, Bytes{7000}));
  EXPECT_EQ(shown(ok, "planwright:outcome"), R"("ok")");
  EXPECT_EQ(shown(ok, "planwright:measured"),
            R"({"step_time_s":0.125,"tokens_per_second_per_device":50.0,"allocated_bytes":7000})");
  const Attributes full = outcome_attributes(ran_full());
  EXPECT_EQ(shown(full, "planwright:outcome"), R"("out_of_memory")");
  EXPECT_NE(shown(full, "planwright:measured").find(R"("account":"logits")"), std::string::npos);
  const Attributes hung = outcome_attributes(failed(OutcomeKind::hung));
  EXPECT_EQ(shown(hung, "planwright:outcome"), R"("hung")");
  EXPECT_EQ(shown(hung, "planwright:detail"), R"("rank 1 was ended by SIGKILL")");
}

}  // namespace
}  // namespace planwright::studies
