#include "choices.h"
#include "launcher/plan_file.h"
#include "probes/protocol/probe_report.h"
#include "probes/protocol/probe_request.h"
#include "tests/support/samples.h"

/// A good document of each hand-off type with a few values changed: it is refused, or the value
/// that comes of it stays the same when it is written and read again.
namespace planwright {

using Check = void (*)(fuzz::Choices&);

template <auto kSample, auto kRead>
void check(fuzz::Choices& choices) {
  static const Json kGood = to_json(kSample());
  const Json json = fuzz::changed(kGood, choices);
  fuzz::refused_or_fine([&] {
    const auto value = kRead(json, "fuzz");
    const Json written = to_json(value);
    fuzz::require(canonical_text(to_json(kRead(written, "again"))) == canonical_text(written));
  });
}

launcher::PlanFile sample_plan() {
  const Trial trial = testing::sample_trial();
  return launcher::plan_of(testing::sample_problem(), trial, "study");
}

probes::ProbeRequest sample_request() {
  probes::ProbeRequest request;
  probes::TrainJob job;
  job.problem = testing::sample_problem();
  job.candidate = testing::sample_candidate();
  request.train = {job};
  return request;
}

probes::RankReport sample_report() {
  probes::RankReport report;
  probes::RankJobReport job;
  job.measurement = testing::sample_rank(1, true);
  report.jobs = {job};
  report.rates = testing::sample_rates();
  return report;
}

Outcome sample_outcome() { return testing::measured_outcome(true); }
Estimate device_estimate() { return testing::sample_estimate(true); }

constexpr Check kChecks[] = {
    check<testing::sample_problem, problem_from_json>,
    check<testing::sample_candidate, candidate_from_json>,
    check<testing::sample_calibration, calibration_from_json>,
    check<testing::sample_rates, host_rates_from_json>,
    check<device_estimate, estimate_from_json>,
    check<sample_outcome, outcome_from_json>,
    check<testing::sample_trial, trial_from_json>,
    check<sample_plan, launcher::plan_file_from_json>,
    check<sample_request, probes::probe_request_from_json>,
    check<sample_report, probes::rank_report_from_json>,
};

}  // namespace planwright

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  planwright::fuzz::Choices choices(data, size);
  planwright::kChecks[choices.below(std::size(planwright::kChecks))](choices);
  return 0;
}
