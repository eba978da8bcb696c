#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "tests/support/fault.h"
#include "tests/support/samples.h"

namespace planwright {
namespace {

using testing::fault_of;

/// Through text, as on disk.
template <class T, class Read>
void expect_round_trip(const T& value, Read read) {
  const std::string text = to_json(value).dump();
  EXPECT_EQ(read(parse_json(text, "text"), "text"), value) << text;
}

TEST(SpecJson, EveryTypeReadsBackWhatItWrote) {
  const Problem problem = testing::sample_problem();
  expect_round_trip(problem, problem_from_json);
  expect_round_trip(problem.model, model_spec_from_json);
  expect_round_trip(problem.cluster, cluster_spec_from_json);
  expect_round_trip(problem.workload, workload_from_json);
  expect_round_trip(testing::sample_candidate(), candidate_from_json);
  expect_round_trip(testing::sample_calibration(), calibration_from_json);
  expect_round_trip(testing::sample_rates(), host_rates_from_json);
  expect_round_trip(ProbeScope{ScopeKind::shadow, 0, 9}, probe_scope_from_json);
  expect_round_trip(testing::sample_estimate(true).loaded, ledger_from_json);
  for (const bool on_device : {true, false}) {
    expect_round_trip(testing::sample_estimate(on_device), estimate_from_json);
    expect_round_trip(testing::measured_outcome(on_device), outcome_from_json);
  }
  expect_round_trip(testing::full_device_outcome(), outcome_from_json);
  expect_round_trip(testing::sample_trial(), trial_from_json);
}

TEST(SpecJson, DefaultValuesReadBackToo) {
  expect_round_trip(Problem{}, problem_from_json);
  expect_round_trip(Candidate{}, candidate_from_json);
  expect_round_trip(Calibration{}, calibration_from_json);
  expect_round_trip(HostRates{}, host_rates_from_json);
  expect_round_trip(Estimate{}, estimate_from_json);
  expect_round_trip(Outcome{}, outcome_from_json);
  expect_round_trip(Outcome{Measurement{}, {}}, outcome_from_json);
  RankMeasurement unbooked;  // of a program that keeps no books
  unbooked.whole_peak = Bytes{900};
  unbooked.held = HeldBytes{Bytes{100}, {}, Bytes{200}, {}};
  Measurement measured;
  measured.ranks = {unbooked};
  expect_round_trip(Outcome{measured, {}}, outcome_from_json);
  const Json json = to_json(Outcome{measured, {}})["ranks"][0];
  EXPECT_EQ(json["peak"]["allocated_bytes"], 900);
  EXPECT_TRUE(json["accounts"].is_null()) << "not known, and not 0";
  expect_round_trip(Trial{}, trial_from_json);
}

TEST(SpecJson, EveryKindOfFailureKeepsItsName) {
  for (std::size_t i = 0; i < kWordCount<OutcomeKind>; ++i) {
    const auto kind = static_cast<OutcomeKind>(i);
    if (kind == OutcomeKind::ok || kind == OutcomeKind::out_of_memory) continue;
    const Outcome outcome = testing::failed_outcome(kind);
    EXPECT_EQ(to_json(outcome)["outcome"], std::string(word(kind)));
    expect_round_trip(outcome, outcome_from_json);
  }
}

TEST(SpecJson, FieldsOfHashedTypesAreLeftOutAtTheirDefault) {
  EXPECT_EQ(to_json(Problem{}).dump(), "{}");
  EXPECT_EQ(to_json(Candidate{}).dump(), "{}");
  EXPECT_EQ(to_json(Calibration{}).dump(), "{}");
  Candidate candidate;
  candidate.dp = 2;
  candidate.recompute.kind = RecomputeKind::full;
  EXPECT_EQ(to_json(candidate).dump(), R"({"dp":2,"recompute":"full"})");
}

TEST(SpecJson, FullCandidateHasEveryAxisInItsFlagsSpelling) {
  const Json json = full_json(Candidate{});
  EXPECT_EQ(json.dump(),
            R"({"tp":1,"pp":1,"vpp":1,"cp":1,"ep":1,"etp":1,"dp":1,"zero":0,"hsdp":1,"sp":false,)"
            R"("micro_batch":1,"schedule":"1f1b","recompute":"none","offload":"none",)"
            R"("offload_to":"cpu","attention":"flash","loss":"plain","knobs":{},"stages":[]})");
  for (const Candidate& candidate : {Candidate{}, testing::sample_candidate()}) {
    EXPECT_EQ(candidate_from_json(full_json(candidate), "text"), candidate);
  }
}

std::set<std::string> keys(const Json& json) {
  std::set<std::string> out;
  for (const auto& item : json.items()) out.insert(item.key());
  return out;
}

TEST(SpecJson, EstimateHasTheKeysOfTheCommandLine) {
  const Json json = to_json(testing::sample_estimate(true));
  for (const char* key :
       {"verdict", "reason", "parameters", "peak", "stages", "host_bytes", "wall", "step_time_s",
        "time", "tokens_per_second_per_device", "mfu", "uncertainty", "fit_probability"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(keys(json["parameters"]), (std::set<std::string>{"total", "trainable", "active"}));
  EXPECT_EQ(keys(json["peak"]), (std::set<std::string>{"rank", "stage", "phase", "allocated_bytes",
                                                       "reserved_bytes", "device_bytes"}));
  EXPECT_EQ(keys(json["time"]),
            (std::set<std::string>{"compute_s", "recompute_s", "communication_s", "bubble_s",
                                   "optimizer_s", "offload_s"}));
  EXPECT_EQ(keys(json["uncertainty"]), (std::set<std::string>{"memory_rel", "time_rel"}));
  const auto words = all_words<Account>();
  EXPECT_EQ(keys(json["stages"][0]["accounts"]), std::set<std::string>(words.begin(), words.end()));
  EXPECT_EQ(json["wall"], "dynamic");
  EXPECT_EQ(json["peak"]["phase"], "backward");
  EXPECT_EQ(json["peak"]["device_bytes"], 50'000);
}

TEST(SpecJson, AStagesAccountsInsideTheAllocatorSumToItsAllocatedBytes) {
  const Json json = to_json(testing::sample_estimate(true));
  for (const Json& stage : json["stages"]) {
    std::int64_t sum = 0;
    for (const auto& [account, bytes] : stage["accounts"].items()) {
      if (account != "context" && account != "fragmentation") sum += bytes.get<std::int64_t>();
    }
    EXPECT_EQ(stage["allocated_bytes"], sum);
  }
}

TEST(SpecJson, AStagesTensorBytesAreItsTensorsOwnPeak) {
  const Estimate estimate = testing::sample_estimate(true);
  const Json json = to_json(estimate);
  for (std::size_t i = 0; i < estimate.stages.size(); ++i) {
    EXPECT_EQ(json["stages"][i]["tensor_bytes"], estimate.stages[i].tensor_peak.value);
  }
}

TEST(SpecJson, WhatACpuDoesNotHaveIsNull) {
  const Json estimate = to_json(testing::sample_estimate(false));
  const Json outcome = to_json(testing::measured_outcome(false));
  for (const Json& accounts :
       {estimate["stages"][0]["accounts"], outcome["ranks"][0]["accounts"]}) {
    EXPECT_TRUE(accounts["context"].is_null());
    EXPECT_TRUE(accounts["fragmentation"].is_null());
    EXPECT_TRUE(accounts["kv_cache"].is_number());
  }
  for (const Json& peak : {estimate["peak"], outcome["ranks"][0]["peak"]}) {
    EXPECT_TRUE(peak["reserved_bytes"].is_null());
    EXPECT_TRUE(peak["device_bytes"].is_null());
    EXPECT_TRUE(peak["allocated_bytes"].is_number());
  }
}

TEST(SpecJson, AnEstimateWithoutStagesHasAPeakOfNulls) {
  Estimate estimate;
  estimate.verdict = Verdict::invalid;
  EXPECT_EQ(to_json(estimate)["peak"].dump(),
            R"({"rank":0,"stage":0,"phase":null,"allocated_bytes":null,)"
            R"("reserved_bytes":null,"device_bytes":null})");
}

TEST(SpecJson, AnInvalidCandidateHasNoTimes) {
  Estimate estimate;
  estimate.verdict = Verdict::invalid;
  const Json json = to_json(estimate);
  for (const char* key : {"step_time_s", "time", "tokens_per_second_per_device"}) {
    EXPECT_TRUE(json[key].is_null()) << key;
  }
  EXPECT_EQ(estimate_from_json(json, "text"), estimate);
}

TEST(SpecJson, AnOutcomeThatMeasuredNothingHasNullsAndEmptyLists) {
  for (const Outcome& outcome :
       {testing::full_device_outcome(), testing::failed_outcome(OutcomeKind::hung)}) {
    const Json json = to_json(outcome);
    EXPECT_TRUE(json["ranks"].empty());
    EXPECT_TRUE(json["steps_s"].empty());
    EXPECT_TRUE(json["tokens_per_second_per_device"].is_null());
  }
}

TEST(SpecJson, NumbersSurviveToTheLastBit) {
  for (const double number : {0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -0.0, 1e22}) {
    Trial trial;
    trial.started_unix_s = number;
    const Trial back = trial_from_json(parse_json(to_json(trial).dump(), "text"), "text");
    EXPECT_EQ(back.started_unix_s, number);
    EXPECT_EQ(std::signbit(back.started_unix_s), std::signbit(number));
  }
}

TEST(SpecJson, ALossThatIsNotFiniteIsNullAndReadsAsNotANumber) {
  Outcome outcome = testing::measured_outcome(false);
  std::get<Measurement>(outcome.value).losses = {1.5, std::nan(""),
                                                 std::numeric_limits<double>::infinity()};
  const std::string text = to_json(outcome).dump();
  EXPECT_NE(text.find(R"("losses":[1.5,null,null])"), std::string::npos) << text;
  const Outcome back = outcome_from_json(parse_json(text, "text"), "text");
  EXPECT_TRUE(std::isnan(back.measurement()->losses[1]));
}

TEST(SpecJson, ALogThatIsNotUtf8CanStillBeWritten) {
  Outcome outcome = testing::failed_outcome(OutcomeKind::crashed);
  std::get<Failure>(outcome.value).log_tail = "caf\xc3\xa9 \xff\xfe end";
  const Json json = parse_json(to_json(outcome).dump(), "text");
  EXPECT_EQ(json["failure"]["log_tail"], "caf\xc3\xa9 \xef\xbf\xbd\xef\xbf\xbd end");
}

struct BadCase {
  const char* name;
  std::function<void(const Json&)> read;
  const char* text;
  const char* key;
  const char* rule;  ///< a part of it
  const char* nearest;
};

const auto kReadCandidate = [](const Json& json) { candidate_from_json(json, "file.json"); };
const auto kReadProblem = [](const Json& json) { problem_from_json(json, "file.json"); };
const auto kReadEstimate = [](const Json& json) { estimate_from_json(json, "file.json"); };
const auto kReadOutcome = [](const Json& json) { outcome_from_json(json, "file.json"); };
const auto kReadCalibration = [](const Json& json) { calibration_from_json(json, "file.json"); };

const BadCase kBadCases[] = {
    {"unknown", kReadCandidate, R"({"micro_bach":2})", "micro_bach", "not a key", "micro_batch"},
    {"text for a number", kReadCandidate, R"({"tp":"2"})", "tp", "not a string", ""},
    {"fraction for a number", kReadCandidate, R"({"tp":2.5})", "tp", "not a fraction", ""},
    {"null for a number", kReadCandidate, R"({"tp":null})", "tp", "not null", ""},
    {"below the range", kReadCandidate, R"({"tp":0})", "tp", "at least 1", "1"},
    {"above the range", kReadCandidate, R"({"zero":4})", "zero", "at most 3", "3"},
    {"beyond int", kReadCandidate, R"({"dp":4294967298})", "dp", "at most 2147483647",
     "2147483647"},
    {"word", kReadCandidate, R"({"schedule":"1fb1"})", "schedule", "one of gpipe", "1f1b"},
    {"number for a word", kReadCandidate, R"({"loss":1})", "loss", "must be a string", ""},
    {"number for a flag", kReadCandidate, R"({"sp":1})", "sp", "true or false", ""},
    {"inside a list", kReadCandidate, R"({"stages":[{},{"recompute":"chunk"}]})",
     "stages[1].recompute", "number of layers", "chunk:1"},
    {"no list", kReadCandidate, R"({"stages":{}})", "stages", "a list, not an object", ""},
    {"no object", kReadCandidate, "[1]", "", "an object, not a list", ""},
    {"deep", kReadProblem, R"({"model":{"runs":[{"block":{"head":1}}]}})",
     "model.runs[0].block.head", "not a key", "heads"},
    {"beyond 64 bits", kReadProblem, R"({"model":{"hidden":18446744073709551615}})", "model.hidden",
     "at most", ""},
    {"negative bytes", kReadProblem, R"({"cluster":{"device":{"memory_bytes":-1}}})",
     "cluster.device.memory_bytes", "at least 0", "0"},
    {"a sum that is none", kReadEstimate,
     R"({"stages":[{"accounts":{"logits":5},"allocated_bytes":6}]})", "stages[0].allocated_bytes",
     "contradicts", "5"},
    {"a peak that is none", kReadEstimate,
     R"({"stages":[{"accounts":{"logits":5}}],"peak":{"allocated_bytes":4}})",
     "peak.allocated_bytes", "contradicts", "5"},
    {"an unknown account", kReadEstimate, R"({"loaded":{"logit":5}})", "loaded.logit", "not a key",
     "logits"},
    {"no outcome", kReadOutcome, "{}", "outcome", "is missing", ""},
    {"an outcome without its story", kReadOutcome, R"({"outcome":"out_of_memory"})",
     "out_of_memory", "is missing", ""},
    {"a failure that measured", kReadOutcome,
     R"({"outcome":"hung","step_time_s":1.0,"failure":{}})", "step_time_s", "contradicts", "null"},
    {"half a covariance", kReadCalibration, R"({"coefficients":[{},{}],"covariance":[1.0,2.0]})",
     "covariance", "n x n", "4"},
};

TEST(SpecJson, WrongInputIsRefusedByPathRuleAndNearestSpelling) {
  for (const BadCase& c : kBadCases) {
    SCOPED_TRACE(c.name);
    const InputFault fault = fault_of([&] { c.read(parse_json(c.text, "file.json")); });
    EXPECT_EQ(fault.file, "file.json");
    EXPECT_EQ(fault.key, c.key);
    EXPECT_NE(fault.rule.find(c.rule), std::string::npos) << fault.rule;
    EXPECT_EQ(fault.nearest, c.nearest);
  }
}

TEST(SpecJson, AMessageShowsTheValueShortened) {
  const Json json{{"tp", std::string(1000, 'x')}};
  const InputFault fault = fault_of([&] { candidate_from_json(json, "file.json"); });
  EXPECT_LT(fault.value.size(), 70U);
  EXPECT_EQ(fault.value.substr(0, 4), "\"xxx");
}

}  // namespace
}  // namespace planwright
