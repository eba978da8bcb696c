#include "tests/support/ledger_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "estimator/calibrate.h"
#include "estimator/coefficients.h"
#include "estimator/price_terms.h"
#include "estimator/quantities.h"
#include "estimator/spec/error.h"
#include "estimator/spec/rank_grid.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::testing {
namespace {

/// What is expected of one stage's ranks.
struct Expected {
  Ledger loaded;
  estimator::PhaseBytes peak;  ///< the phase with the most tensors, the first of equals
  double allocated = 0;
};

TargetTraits traits_of(const LedgerCase& each) {
  TargetTraits traits = targets::builtin::traits();
  traits.kernels = [kernels = each.kernels](DeviceKind) { return kernels; };
  return traits;
}

/// Quantified and priced, not judged: ZeRO 1 on one rank is in the table and saves nothing, so that
/// the target's rules refuse it. By stage.
std::vector<Expected> expect(const LedgerCase& each) {
  const TargetTraits traits = traits_of(each);
  const auto quantities = estimator::quantify(each.problem, traits, each.candidate);
  const auto prior =
      estimator::values_of(estimator::prior_calibration(each.problem, traits, std::nullopt));
  std::vector<Expected> stages;
  for (const estimator::StageQuantities& stage : quantities.stages) {
    stages.push_back({stage.loaded, estimator::largest_tensors(stage),
                      estimator::stage_peak(stage, prior).allocated});
  }
  return stages;
}

void compare_accounts(const std::string& where, const Ledger& estimated, const Ledger& measured,
                      std::vector<std::string>& faults) {
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    if (estimated[account] == measured[account]) continue;
    faults.push_back(fmt::format("{}, {}: estimated {}, measured {}", where, word(account),
                                 estimated[account].value, measured[account].value));
  }
}

/// The tensors that are alive beside a kernel's workspace.
Ledger without_workspace(Ledger ledger) {
  ledger[Account::workspace] = Bytes{};
  return ledger;
}

double difference(Bytes measured, double estimated) {
  return std::abs(static_cast<double>(measured.value) / estimated - 1);
}

void compare_rank(const Expected& expected, const RankMeasurement& rank, LedgerComparison& result) {
  const std::string name = fmt::format("rank {}", rank.rank);
  compare_accounts(name + ", loaded", expected.loaded, rank.loaded, result.state_faults);
  compare_accounts(name + ", step_end", expected.loaded, rank.step_end, result.state_faults);
  compare_accounts(fmt::format("{}, peak in {} (expected in {})", name, word(rank.tensors_phase),
                               word(expected.peak.phase)),
                   expected.peak.tensors, without_workspace(rank.tensors), result.peak_faults);
  const auto tensors = static_cast<double>(expected.peak.tensors.tensors().value);
  result.tensor_difference =
      std::max(result.tensor_difference, difference(rank.tensor_peak(), tensors));
  result.allocated_difference =
      std::max(result.allocated_difference, difference(rank.allocated_peak(), expected.allocated));
}

void compare_reports(const LedgerCase& each, const std::vector<probes::RankReport>& reports,
                     std::size_t job, LedgerComparison& result) {
  const std::vector<Expected> stages = expect(each);
  for (const probes::RankReport& report : reports) {
    const RankMeasurement& rank = report.jobs.at(job).measurement;
    const int stage = place_of(each.candidate, rank.rank).pp;
    compare_rank(stages.at(static_cast<std::size_t>(stage)), rank, result);
  }
}

probes::TrainJob job_of(const LedgerCase& each, ProbeScope scope) {
  scope.warmup = 1;
  scope.steps = 1;
  return launcher::make_train_job(each.problem, each.candidate, scope, traits_of(each), 0);
}

std::vector<probes::RankReport> run(const std::vector<probes::TrainJob>& jobs,
                                    const std::vector<const LedgerCase*>& cases,
                                    const launcher::RunOptions& options) {
  launcher::JobsResult ran = launcher::run_jobs(jobs, options);
  if (!ran.failure) return std::move(ran.reports);
  const std::size_t begun = ran.reports.empty() ? 0 : ran.reports.front().jobs.size();
  const Failure* const failure = ran.failure->failure();
  throw WorldError(fmt::format("{}: {} {}\n{}", cases.at(begun == 0 ? 0 : begun - 1)->name,
                               word(ran.failure->kind()), failure ? failure->detail : "",
                               failure ? failure->log_tail : ""));
}

}  // namespace

LedgerCase case_of(const LedgerCell& cell) {
  return {describe(cell), ledger_problem(cell), ledger_candidate(cell)};
}

LedgerCase case_of(LayoutModel model, const Candidate& layout, Precision precision) {
  return {fmt::format("{} {}, {}", layout_model(model).name, word(precision), describe(layout)),
          layout_problem(model, layout, precision), layout};
}

std::vector<LedgerComparison> compare_ledgers(const std::vector<LedgerCase>& cases,
                                              const launcher::RunOptions& options) {
  std::map<std::int64_t, std::vector<std::size_t>> by_world;
  for (std::size_t i = 0; i < cases.size(); ++i) by_world[cases[i].candidate.world()].push_back(i);
  std::vector<LedgerComparison> results(cases.size());
  for (const auto& [world, indices] : by_world) {
    std::vector<probes::TrainJob> jobs;
    std::vector<const LedgerCase*> together;
    for (const std::size_t i : indices) {
      jobs.push_back(job_of(cases[i], {}));
      together.push_back(&cases[i]);
    }
    const auto reports = run(jobs, together, options);
    for (std::size_t i = 0; i < indices.size(); ++i) {
      results[indices[i]].index = indices[i];
      compare_reports(cases[indices[i]], reports, i, results[indices[i]]);
    }
  }
  return results;
}

LedgerComparison compare_shadow(const LedgerCase& each, const std::vector<int>& ranks,
                                const launcher::RunOptions& options) {
  std::vector<probes::TrainJob> jobs;
  for (const int rank : ranks) {
    jobs.push_back(
        job_of(each, {.kind = ScopeKind::shadow, .warmup = 1, .steps = 1, .rank = rank}));
  }
  const auto reports = run(jobs, std::vector<const LedgerCase*>(jobs.size(), &each), options);
  LedgerComparison result;
  for (std::size_t i = 0; i < jobs.size(); ++i) compare_reports(each, reports, i, result);
  return result;
}

}  // namespace planwright::testing
