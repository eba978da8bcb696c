#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "probes/protocol/probe_request.h"
#include "tests/support/fault.h"
#include "tests/support/samples.h"

namespace planwright::probes {
namespace {

using testing::fault_of;

ProbeRequest sample_request() {
  TrainJob job;
  job.problem = testing::sample_problem();
  job.candidate = testing::sample_candidate();
  job.scope = {.kind = ScopeKind::full, .warmup = 2, .steps = 7};
  job.bucket_elements = 1 << 22;
  job.kernels = KernelSet::composed;
  job.memory_budget = Bytes{1 << 30};
  job.seed = std::numeric_limits<std::uint64_t>::max();
  job.dump = "/tmp/dump";
  ProbeRequest request;
  request.world = 3;
  request.threads = 2;
  request.device = DeviceKind::cuda;
  request.rendezvous = "/tmp/meet";
  request.report_prefix = "/tmp/report";
  request.collective_timeout_s = 12.5;
  request.kind = JobKind::benchmark;
  request.train = {job, TrainJob{}};
  request.benchmark = {.device = DeviceKind::cuda, .threads = 5};
  return request;
}

TEST(ProtocolRequest, ReadsBackWhatItWrote) {
  for (const ProbeRequest& request : {sample_request(), ProbeRequest{}}) {
    const std::string text = to_json(request).dump();
    EXPECT_EQ(probe_request_from_json(parse_json(text, "text"), "text"), request) << text;
  }
}

TEST(ProtocolRequest, AJobWithoutABudgetSaysSo) {
  const Json json = to_json(sample_request());
  EXPECT_EQ(json["train"][0]["memory_budget_bytes"], 1 << 30);
  EXPECT_TRUE(json["train"][1]["memory_budget_bytes"].is_null());
}

TEST(ProtocolRequest, WrongInputIsRefusedByItsPath) {
  const struct {
    const char* text;
    const char* key;
    const char* nearest;
  } kCases[] = {
      {R"({"wrld":2})", "wrld", "world"},
      {R"({"world":0})", "world", "1"},
      {R"({"kind":"trian"})", "kind", "train"},
      {R"({"device":"gpu"})", "device", "cpu"},
      {R"({"train":[{"kernels":"inplace"}]})", "train[0].kernels", "in_place"},
      {R"({"train":[{},{"problem":{"model":{"hiden":1}}}]})", "train[1].problem.model.hiden",
       "hidden"},
      {R"({"train":[{"seed":-1}]})", "train[0].seed", "0"},
      {R"({"benchmark":{"threads":0}})", "benchmark.threads", "1"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    const InputFault fault =
        fault_of([&] { probe_request_from_json(Json::parse(c.text), "request.json"); });
    EXPECT_EQ(fault.file, "request.json");
    EXPECT_EQ(fault.key, c.key);
    EXPECT_EQ(fault.nearest, c.nearest);
  }
}

}  // namespace
}  // namespace planwright::probes
