#include "cli/print_probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/print_estimate.h"
#include "cli/print_table.h"
#include "estimator/spec/json.h"
#include "launcher/probe_runner.h"

namespace planwright::cli {
namespace {

const RankMeasurement& worst_rank(const Measurement& measurement) {
  return *std::max_element(measurement.ranks.begin(), measurement.ranks.end(),
                           [](const RankMeasurement& a, const RankMeasurement& b) {
                             return a.allocated_peak() < b.allocated_peak();
                           });
}

std::string comparison_table(const Estimate& estimate, const Measurement& measurement,
                             const Paint& paint) {
  const RankMeasurement& rank = worst_rank(measurement);
  const Ledger& predicted = estimate.peak().accounts;
  const Bytes scale = std::max(predicted.allocated(), rank.allocated_peak());
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    if (predicted[account] == Bytes{} && rank.peak[account] == Bytes{}) continue;
    rows.push_back({fmt::format("  {}", word(account)), gib_text(predicted[account], scale),
                    gib_text(rank.peak[account], scale)});
  }
  rows.push_back({"allocated", gib_text(predicted.allocated(), scale),
                  gib_text(rank.allocated_peak(), scale)});
  rows.push_back(
      {"phase", std::string(word(estimate.peak().phase)), std::string(word(rank.peak_phase))});
  rows.push_back(
      {"step ms", ms_text(estimate.step_time), ms_text(Seconds{measurement.step_time_s})});
  rows.push_back({"tokens/s/device", rate_text(estimate.tokens_per_second_per_device),
                  rate_text(measurement.tokens_per_second_per_device)});
  return table_text(
      {{"GiB, worst rank", Align::left}, {"predicted", Align::right}, {"measured", Align::right}},
      rows, paint);
}

std::string out_of_memory_text(const OutOfMemory& full) {
  return fmt::format("rank {} asked for {} GiB of {} in {}, with {} GiB of {} GiB in use",
                     full.rank, gib_text(full.requested, full.capacity), word(full.account),
                     word(full.phase), gib_text(full.allocated, full.capacity),
                     gib_text(full.capacity));
}

}  // namespace

std::string outcome_text(const Outcome& outcome, const Paint& paint) {
  if (const Measurement* measured = outcome.measurement()) {
    return fmt::format("{}, {} GiB, {} tokens/s/device", paint.good("ok"),
                       gib_text(measured->allocated_peak()),
                       rate_text(measured->tokens_per_second_per_device));
  }
  if (const OutOfMemory* full = outcome.out_of_memory()) {
    return fmt::format("{}: {}", paint.doubtful("out of memory"), out_of_memory_text(*full));
  }
  return fmt::format("{}: {}", paint.bad(word(outcome.kind())), outcome.failure()->detail);
}

std::optional<std::string> disturbance_of(const Outcome& outcome) {
  const auto found = outcome.environment.find(launcher::kDisturbance);
  if (found == outcome.environment.end()) return std::nullopt;
  return fmt::format("the measurement was disturbed: {}", found->second);
}

std::string ending_text(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::ok:
      return "was measured";
    case OutcomeKind::out_of_memory:
      return "ran out of memory";
    case OutcomeKind::host_out_of_memory:
      return "ran out of host memory";
    case OutcomeKind::crashed:
      return "crashed";
    case OutcomeKind::hung:
      return "hung";
    case OutcomeKind::timed_out:
      return "timed out";
    case OutcomeKind::environment:
      break;
  }
  return "failed";
}

std::string probe_text(const Problem& problem, const Candidate& candidate, const Estimate& estimate,
                       const Outcome& outcome, const Paint& paint) {
  std::string text = fmt::format("{}\n{}\n{}\n", problem_text(problem), describe(candidate),
                                 outcome_text(outcome, paint));
  if (const Measurement* measured = outcome.measurement()) {
    text += "\n" + comparison_table(estimate, *measured, paint);
  } else if (const Failure* failure = outcome.failure(); failure && !failure->log_tail.empty()) {
    text += fmt::format("\nlast lines of the rank:\n{}\n", failure->log_tail);
  }
  return text;
}

Json probe_json(const Problem& problem, const Candidate& candidate, const ProbeScope& scope,
                const Estimate& estimate, const Outcome& outcome) {
  Json json = to_json(outcome);
  json["scope"] = to_json(scope);
  json["candidate"] = full_json(candidate);
  json["target"] = problem.target;
  json["capacity_bytes"] = capacity(problem).value;
  json["estimate"] = to_json(estimate);
  return json;
}

}  // namespace planwright::cli
