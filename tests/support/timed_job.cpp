#include "tests/support/timed_job.h"

#include <algorithm>

#include "estimator/spec/error.h"
#include "estimator/spec/median.h"

namespace planwright::testing {

std::vector<Measurement> measure(const std::string& what, const std::vector<probes::TrainJob>& jobs,
                                 const launcher::RunOptions& options) {
  const launcher::JobsResult ran = launcher::run_jobs(jobs, options);
  if (ran.failure) {
    const Failure* const failure = ran.failure->failure();
    throw WorldError(what + ": " + std::string(word(ran.failure->kind())) +
                     (failure ? ", " + failure->detail + "\n" + failure->log_tail : ""));
  }
  std::vector<Measurement> measured;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    const Workload& workload = jobs[i].problem.workload;
    measured.push_back(probes::summarize(ran.reports, i, workload.seq * workload.global_batch));
  }
  return measured;
}

Spread spread(const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {median(values), *least, *most};
}

std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] / b.at(i));
  return out;
}

}  // namespace planwright::testing
