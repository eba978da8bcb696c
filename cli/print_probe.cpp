#include "cli/print_probe.h"

#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/print_estimate.h"
#include "cli/print_table.h"
#include "estimator/known.h"
#include "estimator/spec/json.h"
#include "estimator/spec/rank_grid.h"
#include "launcher/plan_probe.h"

namespace planwright::cli {
namespace {

const RankMeasurement& worst_rank(const Measurement& measurement) {
  return *std::max_element(measurement.ranks.begin(), measurement.ranks.end(),
                           [](const RankMeasurement& a, const RankMeasurement& b) {
                             return a.allocated_peak() < b.allocated_peak();
                           });
}

const StageEstimate& stage_of(const Estimate& estimate, const Candidate& candidate, int rank) {
  return estimate.stages.at(static_cast<std::size_t>(place_of(candidate, rank).pp));
}

/// What a step's time goes into. A rank that is played alone waits for nobody.
void add_time_parts(std::vector<std::vector<std::string>>& rows, const TimeSplit& predicted,
                    const TimeSplit& measured, bool whole) {
  const std::pair<const char*, Seconds TimeSplit::*> parts[] = {
      {"  compute", &TimeSplit::compute},
      {"  recompute", &TimeSplit::recompute},
      {"  communication", &TimeSplit::communication},
      {"  bubble", &TimeSplit::bubble},
      {"  optimizer", &TimeSplit::optimizer}};
  for (const auto& [name, part] : parts) {
    if (predicted.*part == Seconds{} && measured.*part == Seconds{}) continue;
    const bool waits = part == &TimeSplit::communication || part == &TimeSplit::bubble;
    rows.push_back(
        {name, ms_text(predicted.*part), waits && !whole ? kNotKnown : ms_text(measured.*part)});
  }
}

/// Of a program that keeps no books: what is known of the account between steps.
std::string kept_text(const RankMeasurement& rank, Account account, Bytes scale) {
  const HeldBytes held = rank.held.value_or(HeldBytes{});
  const std::pair<Account, std::optional<Bytes>> known[] = {
      {Account::parameters, held.parameters},
      {Account::gradients, held.gradients},
      {Account::optimizer, held.optimizer},
      {Account::communication, held.communication}};
  for (const auto& [each, bytes] : known) {
    if (each == account && bytes) return gib_text(*bytes, scale) + " kept";
  }
  return kNotKnown;
}

using Rows = std::vector<std::vector<std::string>>;

/// The accounts of a rank beside those of its stage, and what holds them together. Nothing of what
/// neither side knows.
Rows memory_rows(const StageEstimate& stage, const RankMeasurement& rank, bool is_known) {
  const Ledger& predicted = stage.accounts;
  const bool booked = !rank.whole_peak.has_value();  // by account
  // Of a program that is not known the two may be far apart.
  const Bytes scale = booked ? std::max(predicted.allocated(), rank.allocated_peak())
                             : std::min(predicted.allocated(), rank.allocated_peak());
  Rows rows;
  const auto add = [&](std::string name, std::string expected, std::string measured) {
    if (!is_known && measured == kNotKnown) return;
    rows.push_back(
        {std::move(name), is_known ? std::move(expected) : kNotKnown, std::move(measured)});
  };
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    if (predicted[account] == Bytes{} && rank.peak[account] == Bytes{}) continue;
    add(fmt::format("  {}", word(account)), gib_text(predicted[account], scale),
        booked ? gib_text(rank.peak[account], scale) : kept_text(rank, account, scale));
  }
  add("allocated", gib_text(predicted.allocated(), scale), peak_text(rank.allocated_peak(), scale));
  if (predicted[Account::workspace] != Bytes{} || rank.peak[Account::workspace] != Bytes{}) {
    add("tensors at most", gib_text(stage.tensor_peak, scale), gib_text(rank.tensor_peak(), scale));
  }
  add("phase", std::string(word(stage.phase)),
      booked ? std::string(word(rank.peak_phase)) : kNotKnown);
  return rows;
}

/// A rank that is played alone says nothing of the whole job's step.
void add_time_rows(Rows& rows, const Problem& problem, const ProbeScope& scope,
                   const Estimate& estimate, const Measurement& measurement,
                   const RankMeasurement& rank) {
  const bool whole = scope.kind == ScopeKind::full;
  const bool is_known = estimator::time_is_known(problem, estimate);
  rows.push_back({"step ms", is_known ? ms_text(estimate.step_time) : kNotKnown,
                  whole ? ms_text(Seconds{measurement.step_time_s}) : kNotKnown});
  if (rank.time) add_time_parts(rows, estimate.time, *rank.time, whole);
  rows.push_back({std::string(rate_unit(problem)),
                  is_known ? rate_text(estimate.tokens_per_second_per_device) : kNotKnown,
                  whole ? rate_text(measurement.tokens_per_second_per_device) : kNotKnown});
  if (!whole) rows.push_back({"alone ms", "", ms_text(Seconds{measurement.step_time_s})});
}

/// The fullest rank's figures beside what was expected of it.
std::string comparison_table(const Problem& problem, const Candidate& candidate,
                             const ProbeScope& scope, const Estimate& estimate,
                             const Measurement& measurement, const Paint& paint) {
  const RankMeasurement& rank = worst_rank(measurement);
  Rows rows = memory_rows(stage_of(estimate, candidate, rank.rank), rank,
                          estimator::memory_is_known(problem, estimate));
  add_time_rows(rows, problem, scope, estimate, measurement, rank);
  return table_text({{fmt::format("GiB, rank {}", rank.rank), Align::left},
                     {"predicted", Align::right},
                     {"measured", Align::right}},
                    rows, paint);
}

/// Each stage's fullest rank, where there are several.
std::string stage_table(const Problem& problem, const Candidate& candidate,
                        const Estimate& estimate, const Measurement& measurement,
                        const Paint& paint) {
  const bool is_known = estimator::memory_is_known(problem, estimate);
  std::vector<const RankMeasurement*> fullest(estimate.stages.size(), nullptr);
  for (const RankMeasurement& rank : measurement.ranks) {
    const auto stage = static_cast<std::size_t>(place_of(candidate, rank.rank).pp);
    const RankMeasurement*& most = fullest.at(stage);
    if (most == nullptr || most->allocated_peak() < rank.allocated_peak()) most = &rank;
  }
  std::vector<std::vector<std::string>> rows;
  for (std::size_t stage = 0; stage < fullest.size(); ++stage) {
    if (fullest[stage] == nullptr) continue;
    const Bytes predicted = estimate.stages[stage].accounts.allocated();
    const Bytes measured = fullest[stage]->allocated_peak();
    rows.push_back({std::to_string(stage), std::to_string(fullest[stage]->rank),
                    is_known ? gib_text(predicted, std::max(predicted, measured)) : kNotKnown,
                    gib_text(measured, std::max(predicted, measured)),
                    std::string(word(fullest[stage]->peak_phase))});
  }
  return table_text({{"stage", Align::right},
                     {"rank", Align::right},
                     {"predicted GiB", Align::right},
                     {"measured GiB", Align::right},
                     {"phase", Align::left}},
                    rows, paint);
}

std::string out_of_memory_text(const OutOfMemory& full) {
  const std::string account = full.account ? fmt::format(" of {}", word(*full.account)) : "";
  const std::string phase = full.phase ? fmt::format(" in {}", word(*full.phase)) : "";
  if (full.requested == Bytes{}) {  // nobody asked: it is held against the device afterwards
    return fmt::format("rank {} took {} GiB{}{}, more than the {} GiB that a plan may fill",
                       full.rank, gib_text(full.allocated, full.capacity), account, phase,
                       gib_text(full.capacity));
  }
  const std::string asked = fmt::format("rank {} asked for {} GiB{}{}", full.rank,
                                        gib_text(full.requested, full.capacity), account, phase);
  if (full.allocated == Bytes{}) return asked + ", and its log does not say what was in use";
  return fmt::format("{}, with {} GiB of {} GiB in use", asked,
                     gib_text(full.allocated, full.capacity), gib_text(full.capacity));
}

}  // namespace

std::string outcome_text(const Outcome& outcome, const Paint& paint, std::string_view rate_unit) {
  if (const Measurement* measured = outcome.measurement()) {
    const double rate = measured->tokens_per_second_per_device;
    const Bytes peak = measured->allocated_peak();
    return fmt::format("{}, {}{}", paint.good("ok"),
                       peak == Bytes{} ? "memory not known" : gib_text(peak) + " GiB",
                       rate > 0 ? fmt::format(", {} {}", rate_text(rate), rate_unit) : "");
  }
  if (const OutOfMemory* full = outcome.out_of_memory()) {
    return fmt::format("{}: {}", paint.doubtful("out of memory"), out_of_memory_text(*full));
  }
  return fmt::format("{}: {}", paint.bad(word(outcome.kind())), outcome.failure()->detail);
}

std::vector<std::string> oddities_of(const Outcome& outcome) {
  std::vector<std::string> warnings;
  const auto& environment = outcome.environment;
  if (const auto found = environment.find(launcher::kDisturbance); found != environment.end()) {
    warnings.push_back(fmt::format("the measurement was disturbed: {}", found->second));
  }
  if (const auto found = environment.find(launcher::kOddity); found != environment.end()) {
    warnings.push_back(found->second);
  }
  return warnings;
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

std::string probe_text(const Problem& problem, const Candidate& candidate, const ProbeScope& scope,
                       const Estimate& estimate, const Outcome& outcome, const Paint& paint) {
  std::string text = fmt::format("{}\n{}\n", problem_text(problem), describe(candidate));
  if (scope.kind == ScopeKind::shadow) {
    text +=
        fmt::format("rank {} of {}, played by one process: what others would send is filled in\n",
                    scope.rank, candidate.world());
  }
  text += outcome_text(outcome, paint, rate_unit(problem)) + "\n";
  if (const Measurement* measured = outcome.measurement()) {
    text += "\n" + comparison_table(problem, candidate, scope, estimate, *measured, paint);
    if (candidate.pp > 1 && scope.kind == ScopeKind::full) {
      text += "\n" + stage_table(problem, candidate, estimate, *measured, paint);
    }
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
  json["estimate"] = known_json(problem, estimate);
  if (scope.kind == ScopeKind::shadow) {
    for (const char* unknown : {"tokens_per_second_per_device", "losses"}) json[unknown] = nullptr;
  }
  return json;
}

}  // namespace planwright::cli
