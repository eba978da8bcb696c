#include "cli/self_test_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "cli/print_probe.h"
#include "estimator/coefficients.h"
#include "estimator/price_terms.h"
#include "estimator/quantities.h"
#include "estimator/spec/rank_grid.h"

namespace planwright::cli {
namespace {

const char* const kReport =
    "the estimate is not exact on this device: report the rows that differ, with the output of "
    "planwright doctor --gpu --json; until then keep a --headroom of more than the difference";
const char* const kSeeMessage =
    "see the message; planwright-worker-cuda needs the libraries that ./dev setup installs where "
    "there is a driver";

/// What is compared: by the model, and as measured.
struct Instant {
  const char* name;
  Ledger estimated;
  Ledger measured;
};

Ledger without_workspace(Ledger ledger) {
  ledger[Account::workspace] = Bytes{};
  return ledger;
}

std::vector<Instant> instants(const ExactLedger& exact, const RankMeasurement& rank) {
  return {{"loaded", exact.loaded, without_workspace(rank.loaded)},
          {"peak", exact.peak, without_workspace(rank.tensors)},
          {"end of a step", exact.loaded, without_workspace(rank.step_end)}};
}

std::string difference_text(Bytes estimated, Bytes measured) {
  return fmt::format("{:+}", (measured - estimated).value);
}

/// "peak activations -512"; empty if every account is as estimated.
std::string differences_text(const std::vector<Instant>& all) {
  std::vector<std::string> parts;
  for (const Instant& each : all) {
    for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
      const auto account = static_cast<Account>(i);
      if (each.estimated[account] == each.measured[account]) continue;
      parts.push_back(
          fmt::format("{} {} {}", each.name, word(account),
                      difference_text(each.estimated[account], each.measured[account])));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// "loaded: estimated 4096, measured 4096 (+0)" for each.
std::string sums_text(const std::vector<Instant>& all) {
  std::vector<std::string> parts;
  for (const Instant& each : all) {
    const Bytes estimated = each.estimated.tensors(), measured = each.measured.tensors();
    parts.push_back(fmt::format("{}: estimated {}, measured {} ({})", each.name, estimated.value,
                                measured.value, difference_text(estimated, measured)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

/// The same of one account, which every instant is reduced to.
Check account_check(Account account, const std::vector<Instant>& all) {
  std::vector<Instant> reduced;
  for (const Instant& each : all) {
    Instant& own = reduced.emplace_back(Instant{each.name, {}, {}});
    own.estimated[account] = each.estimated[account];
    own.measured[account] = each.measured[account];
  }
  const bool ok = differences_text(reduced).empty();
  return {fmt::format("trace: {}", word(account)), ok, sums_text(reduced), ok ? "" : kReport};
}

bool is_empty(Account account, const std::vector<Instant>& all) {
  return std::all_of(all.begin(), all.end(), [&](const Instant& each) {
    return each.estimated[account] == Bytes{} && each.measured[account] == Bytes{};
  });
}

std::string known_text(const char* name, const std::optional<Bytes>& bytes) {
  return bytes ? fmt::format(", {} {}", name, bytes->value) : "";
}

/// The peak with the matrix library's workspace, which only a prior is known of: for information.
Check allocated_check(const SelfTestProbe& probe, const RankMeasurement& rank) {
  using estimator::Term;
  estimator::Values<double> values = estimator::values_of({});
  const Coefficient scratch =
      estimator::prior_coefficient(Term::gemm_scratch, probe.problem, values, std::nullopt);
  values[Term::gemm_scratch] = estimator::natural(scratch.transform, scratch.value);
  const auto quantities = estimator::quantify(probe.problem, self_test_traits(), probe.candidate);
  const auto peak = estimator::stage_peak(quantities.stages.front(), values);
  return {"trace: with workspace", true,
          fmt::format("peak: estimated {:.0f} in {} (workspace {:.0f}), measured {} in {} "
                      "(workspace {})",
                      peak.allocated, word(peak.phase->phase), values[Term::gemm_scratch],
                      rank.allocated_peak().value, word(rank.peak_phase),
                      rank.peak[Account::workspace].value),
          ""};
}

/// Each holds the one before: what the books have, what the allocator took, what the device gave.
Check books_check(const RankMeasurement& rank) {
  const Bytes booked = rank.allocated_peak();
  const Bytes reserved = rank.reserved_peak.value_or(booked);
  const bool ok = booked <= reserved && reserved <= rank.device_peak.value_or(reserved) &&
                  booked <= rank.rss_peak.value_or(booked);
  return {"trace: books", ok,
          fmt::format("booked {}{}{}{}", booked.value, known_text("reserved", rank.reserved_peak),
                      known_text("on the device", rank.device_peak),
                      known_text("resident", rank.rss_peak)),
          ok ? "" : "the worker's books say more than the device: report it with this output"};
}

std::string last_line(const std::string& text) {
  const std::string lines = text.substr(0, text.find_last_not_of(" \n") + 1);
  return lines.substr(lines.find_last_of('\n') + 1);
}

}  // namespace

ExactLedger exact_ledger(const SelfTestProbe& probe) {
  const auto quantities = estimator::quantify(probe.problem, self_test_traits(), probe.candidate);
  const int stage = place_of(probe.candidate, probe.scope.rank).pp;
  const auto& of_stage = quantities.stages.at(static_cast<std::size_t>(stage));
  const auto& largest = estimator::largest_tensors(of_stage);
  return {of_stage.loaded, largest.tensors, largest.phase};
}

std::string unexpected_end_text(const Outcome& outcome) {
  std::string text = outcome_text(outcome, Paint{});
  const Failure* const failure = outcome.failure();
  const std::string line = failure == nullptr ? "" : last_line(failure->log_tail);
  return line.empty() ? text : fmt::format("{}; {}", text, line);
}

Check bytes_check(const SelfTestProbe& probe, const Outcome& outcome) {
  const Measurement* const measured = outcome.measurement();
  if (measured == nullptr) {
    return {probe.name, false, unexpected_end_text(outcome), kSeeMessage};
  }
  const auto all = instants(exact_ledger(probe), measured->ranks.front());
  const std::string differences = differences_text(all);
  if (differences.empty()) return {probe.name, true, sums_text({all[0], all[1]}), ""};
  return {probe.name, false, fmt::format("{}; {}", sums_text({all[0], all[1]}), differences),
          kReport};
}

std::vector<Check> trace_checks(const SelfTestProbe& probe, const Outcome& outcome) {
  std::vector<Check> checks{bytes_check(probe, outcome)};
  if (outcome.measurement() == nullptr) return checks;
  const RankMeasurement& rank = outcome.measurement()->ranks.front();
  const auto all = instants(exact_ledger(probe), rank);
  for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
    const auto account = static_cast<Account>(i);
    if (!is_empty(account, all)) checks.push_back(account_check(account, all));
  }
  checks.push_back(allocated_check(probe, rank));
  checks.push_back(books_check(rank));
  return checks;
}

}  // namespace planwright::cli
