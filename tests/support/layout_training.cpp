#include "tests/support/layout_training.h"

#include <algorithm>
#include <cmath>

#include "estimator/spec/error.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::testing {
namespace {

probes::TrainJob job_of(LayoutModel model, const Candidate& candidate, int steps,
                        const std::string& dump) {
  Problem problem = layout_problem(model, candidate, Precision::fp64);
  problem.workload.optimizer = OptimizerKind::sgd;
  const ProbeScope scope{.kind = ScopeKind::full, .warmup = 0, .steps = steps};
  auto job = launcher::make_train_job(problem, candidate, scope, targets::builtin::traits(), 0);
  job.dump = dump;
  return job;
}

void run(const std::vector<probes::TrainJob>& jobs, const launcher::RunOptions& options) {
  const auto ran = launcher::run_jobs(jobs, options);
  if (!ran.failure) return;
  const Failure* const failure = ran.failure->failure();
  const std::size_t begun = ran.reports.empty() ? 0 : ran.reports.front().jobs.size();
  throw WorldError(describe(jobs.at(begun == 0 ? 0 : begun - 1).candidate) + ": " +
                   (failure ? failure->detail + "\n" + failure->log_tail : "out of memory"));
}

TensorDifference worst(const std::vector<TensorDifference>& differences) {
  return *std::max_element(differences.begin(), differences.end(),
                           [](const auto& a, const auto& b) { return a.relative < b.relative; });
}

}  // namespace

std::vector<TrainingDump> train_layouts(LayoutModel model, const std::vector<Candidate>& candidates,
                                        int steps, const std::string& folder,
                                        const launcher::RunOptions& options) {
  std::map<std::int64_t, std::vector<probes::TrainJob>> by_world;
  const auto dump_of = [&](std::size_t i) { return folder + "/" + std::to_string(i); };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    by_world[candidates[i].world()].push_back(job_of(model, candidates[i], steps, dump_of(i)));
  }
  for (const auto& [world, jobs] : by_world) run(jobs, options);
  std::vector<TrainingDump> dumps;
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    dumps.push_back(read_training_dump(dump_of(i), layout_model(model), candidates[i]));
  }
  return dumps;
}

double LayoutDifference::largest() const {
  return std::max({loss, gradient.relative, weight.relative});
}

LayoutDifference difference(LayoutModel model, const TrainingDump& actual,
                            const TrainingDump& expected) {
  const ModelSpec spec = layout_model(model);
  return {std::abs(actual.loss / expected.loss - 1),
          worst(tensor_differences(spec, actual.gradients, expected.gradients)),
          worst(tensor_differences(spec, actual.weights, expected.weights))};
}

}  // namespace planwright::testing
