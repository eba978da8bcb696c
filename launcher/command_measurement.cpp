#include "launcher/command_measurement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "estimator/spec/median.h"

namespace planwright::launcher {
namespace {

/// Behind the warm-up, and with a time: the first step of a process has none.
bool is_measured(const CommandJob& job, const ObservedStep& step) {
  return step.step > job.scope.warmup && step.time_s && *step.time_s > 0 && !step.skipped;
}

void keep_larger(std::optional<Bytes>& kept, const std::optional<Bytes>& bytes) {
  if (bytes) kept = std::max(kept.value_or(Bytes{}), *bytes);
}

void note_memory(const ObservedStep& step, bool on_device, RankMeasurement& rank) {
  keep_larger(rank.whole_peak, step.memory.peak);
  keep_larger(rank.reserved_peak, step.memory.reserved_peak);
  keep_larger(rank.device_peak, step.memory.device_used);
  if (!on_device) keep_larger(rank.rss_peak, step.rss);
}

HeldBytes held_of(const ObservedAccounts& accounts) {
  return {accounts.parameters, accounts.gradients, accounts.optimizer, accounts.communication};
}

RankMeasurement measurement_of(const CommandJob& job, const ObservedProcess& process) {
  RankMeasurement rank;
  rank.rank = process.rank;
  const bool on_device = process.memory_source == "cuda_caching_allocator";
  for (const ObservedStep& step : process.steps) {
    if (step.accounts) rank.held = held_of(*step.accounts);
    if (!is_measured(job, step)) continue;
    rank.steps_s.push_back(*step.time_s);
    note_memory(step, on_device, rank);
  }
  return rank;
}

/// The number of the last step of the warm-up, by lines that may count from 0.
template <class... Lines>
int last_of_warmup(const CommandJob& job, const Lines&... lines) {
  const auto has_zero = [](const auto& some) {
    return std::any_of(some.begin(), some.end(), [](const auto& line) { return line.step == 0; });
  };
  return (has_zero(lines) || ...) ? job.scope.warmup - 1 : job.scope.warmup;
}

/// A step lasts as long as its slowest rank; steps that some rank has not measured are left out.
std::vector<double> slowest(const std::vector<RankMeasurement>& ranks) {
  std::size_t steps = ranks.front().steps_s.size();
  for (const RankMeasurement& rank : ranks) steps = std::min(steps, rank.steps_s.size());
  std::vector<double> slow(steps, 0);
  for (const RankMeasurement& rank : ranks) {
    for (std::size_t i = 0; i < steps; ++i) slow[i] = std::max(slow[i], rank.steps_s[i]);
  }
  return slow;
}

void set_step_time(const CommandJob& job, double seconds, Measurement& measured) {
  measured.step_time_s = seconds;
  measured.tokens_per_second_per_device =
      static_cast<double>(job.tokens) / seconds / static_cast<double>(job.ranks);
}

std::optional<Bytes> bytes_of(const std::optional<MemoryFigure>& figure) {
  return figure ? std::optional(figure->bytes) : std::nullopt;
}

std::vector<RankMeasurement> logged_ranks(const LogSummary& log) {
  std::map<int, RankMeasurement> by_rank;
  for (const auto& [name, memory] : log.memory) {
    if (!memory.allocated_peak && !memory.reserved_peak && !memory.device_used) continue;
    RankMeasurement& rank = by_rank[name.value_or(0)];
    rank.rank = name.value_or(0);
    keep_larger(rank.whole_peak, bytes_of(memory.allocated_peak));
    keep_larger(rank.reserved_peak, bytes_of(memory.reserved_peak));
    keep_larger(rank.device_peak, bytes_of(memory.device_used));
  }
  std::vector<RankMeasurement> ranks;
  for (auto& [number, rank] : by_rank) ranks.push_back(std::move(rank));
  if (ranks.empty()) ranks.emplace_back();
  return ranks;
}

}  // namespace

std::optional<Measurement> observed_measurement(const CommandJob& job, const CommandEnd& end) {
  std::set<int> ranks;
  Measurement measured;
  for (const ObservedProcess& process : end.observed) {
    ranks.insert(process.rank);
    measured.ranks.push_back(measurement_of(job, process));
  }
  if (static_cast<int>(ranks.size()) != job.ranks) return std::nullopt;
  measured.steps_s = slowest(measured.ranks);
  if (measured.steps_s.empty()) return std::nullopt;
  set_step_time(job, median(measured.steps_s), measured);
  return measured;
}

std::optional<Measurement> reported_measurement(const CommandJob& job, const CommandEnd& end) {
  if (!end.report || !end.report->is_useful()) return std::nullopt;
  const CommandReport& report = *end.report;
  Measurement measured = observed_measurement(job, end).value_or(Measurement{});
  std::vector<double> steps;
  const int warmup = last_of_warmup(job, report.steps);
  for (const ReportedStep& step : report.steps) {
    if (step.step > warmup) steps.push_back(step.time_s);
  }
  if (!steps.empty()) measured.steps_s = steps;
  if (report.step_time_s) {
    set_step_time(job, *report.step_time_s, measured);
  } else if (report.tokens_per_second && job.tokens > 0) {
    set_step_time(job, static_cast<double>(job.tokens) / *report.tokens_per_second, measured);
  } else if (!steps.empty()) {
    set_step_time(job, median(steps), measured);
  } else {
    return std::nullopt;
  }
  if (measured.steps_s.empty()) measured.steps_s = {measured.step_time_s};
  if (measured.ranks.empty()) measured.ranks.emplace_back();
  if (report.peak) {
    for (RankMeasurement& rank : measured.ranks) rank.whole_peak = report.peak;
  }
  measured.losses = report.losses;
  return measured;
}

std::optional<LoggedStepTimes> logged_times(const CommandJob& job, const LogSummary& log) {
  const StepSize size{.tokens = static_cast<double>(job.tokens),
                      .samples = static_cast<double>(job.samples),
                      .devices = job.ranks};
  return step_times(log, size, last_of_warmup(job, log.steps, log.rates));
}

std::optional<Measurement> logged_measurement(const CommandJob& job, const CommandEnd& end) {
  const auto times = logged_times(job, end.log);
  if (!times || !times->warm) return std::nullopt;
  Measurement measured;
  measured.ranks = logged_ranks(end.log);
  measured.steps_s = times->seconds;
  if (job.ranks == 1 && measured.ranks.size() == 1) measured.ranks[0].steps_s = times->seconds;
  set_step_time(job, times->median(), measured);
  for (const StepLoss& loss : step_losses(end.log)) {
    measured.losses.push_back(loss.mean.value_or(std::numeric_limits<double>::quiet_NaN()));
  }
  return measured;
}

}  // namespace planwright::launcher
