#include "tests/support/ledger_comparison.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "estimator/quantities.h"
#include "estimator/spec/error.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::testing {
namespace {

/// What is expected of every rank.
struct Expected {
  Ledger loaded;
  estimator::PhaseBytes peak;  ///< the phase with the most tensors, the first of equals
  Bytes allocated;
};

/// Quantified and priced, not judged: ZeRO 1 on one rank is in the table and saves nothing, so that
/// the target's rules refuse it.
Expected expect(const LedgerCell& cell) {
  const TargetTraits& traits = targets::builtin::traits();
  const Problem problem = ledger_problem(cell);
  const auto quantities = estimator::quantify(problem, traits, ledger_candidate(cell));
  const auto prior = estimator::prior_calibration(problem, traits, std::nullopt);
  const auto& phases = quantities.phases;
  const auto largest = std::max_element(
      phases.begin(), phases.end(),
      [](const auto& a, const auto& b) { return a.tensors.tensors() < b.tensors.tensors(); });
  return {quantities.loaded, *largest,
          estimator::Pricer(problem, traits, prior).figures(quantities).allocated};
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

double difference(Bytes measured, Bytes estimated) { return std::abs(measured / estimated - 1); }

void compare_rank(const Expected& expected, const RankMeasurement& rank, LedgerComparison& result) {
  const std::string name = fmt::format("rank {}", rank.rank);
  compare_accounts(name + ", loaded", expected.loaded, rank.loaded, result.state_faults);
  compare_accounts(name + ", step_end", expected.loaded, rank.step_end, result.state_faults);
  compare_accounts(fmt::format("{}, peak in {} (expected in {})", name, word(rank.tensors_phase),
                               word(expected.peak.phase)),
                   expected.peak.tensors, without_workspace(rank.tensors), result.peak_faults);
  result.tensor_difference = std::max(
      result.tensor_difference, difference(rank.tensor_peak(), expected.peak.tensors.tensors()));
  result.allocated_difference =
      std::max(result.allocated_difference, difference(rank.allocated_peak(), expected.allocated));
}

probes::TrainJob job_of(const LedgerCell& cell) {
  const ProbeScope scope{.kind = ScopeKind::full, .warmup = 1, .steps = 1};
  return launcher::make_train_job(ledger_problem(cell), ledger_candidate(cell), scope,
                                  targets::builtin::traits(), 0);
}

[[noreturn]] void refuse(const Outcome& outcome, const std::vector<LedgerCell>& cells,
                         const std::vector<probes::RankReport>& reports) {
  const std::size_t begun = reports.empty() ? 0 : reports.front().jobs.size();
  const Failure* const failure = outcome.failure();
  throw WorldError(fmt::format("{}: {} {}\n{}", describe(cells.at(begun == 0 ? 0 : begun - 1)),
                               word(outcome.kind()), failure ? failure->detail : "",
                               failure ? failure->log_tail : ""));
}

std::vector<LedgerComparison> compare_in_one_set(const std::vector<LedgerCell>& cells,
                                                 const launcher::RunOptions& options) {
  std::vector<probes::TrainJob> jobs;
  for (const LedgerCell& cell : cells) jobs.push_back(job_of(cell));
  const launcher::JobsResult ran = launcher::run_jobs(jobs, options);
  if (ran.failure) refuse(*ran.failure, cells, ran.reports);
  std::vector<LedgerComparison> results;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Expected expected = expect(cells[i]);
    LedgerComparison& result = results.emplace_back();
    result.cell = cells[i];
    for (const probes::RankReport& report : ran.reports) {
      compare_rank(expected, report.jobs.at(i).measurement, result);
    }
  }
  return results;
}

}  // namespace

std::vector<LedgerComparison> compare_ledgers(const std::vector<LedgerCell>& cells,
                                              const launcher::RunOptions& options) {
  std::map<int, std::vector<LedgerCell>> by_dp;
  for (const LedgerCell& cell : cells) by_dp[cell.dp].push_back(cell);
  std::vector<LedgerComparison> results;
  for (const auto& [dp, group] : by_dp) {
    auto compared = compare_in_one_set(group, options);
    std::move(compared.begin(), compared.end(), std::back_inserter(results));
  }
  return results;
}

}  // namespace planwright::testing
