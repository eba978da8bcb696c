#include "launcher/logs/step_times.h"

#include <algorithm>
#include <map>

#include "estimator/spec/median.h"

namespace planwright::launcher {
namespace {

struct Timed {
  std::optional<int> rank;
  std::optional<std::int64_t> step;
  double seconds = 0;
};

StepEvidence evidence_of(StepSource source) {
  switch (source) {
    case StepSource::stated:
      return StepEvidence::stated;
    case StepSource::parts:
      return StepEvidence::parts;
    case StepSource::rate:
      return StepEvidence::step_rate;
  }
  return StepEvidence::stated;
}

StepEvidence evidence_of(RateKind kind) {
  return kind == RateKind::samples ? StepEvidence::sample_rate : StepEvidence::token_rate;
}

double seconds_of(const RateLine& line, const StepSize& size) {
  switch (line.kind) {
    case RateKind::tokens:
      return size.tokens / line.per_second;
    case RateKind::tokens_per_device:
      return size.tokens / size.devices / line.per_second;
    case RateKind::samples:
      return size.samples / line.per_second;
  }
  return 0;
}

using TimedByEvidence = std::map<StepEvidence, std::vector<Timed>>;

TimedByEvidence timed_lines(const LogSummary& summary, const StepSize& size) {
  TimedByEvidence lines;
  for (const StepLine& each : summary.steps) {
    lines[evidence_of(each.source)].push_back({each.rank, each.step, each.seconds});
  }
  for (const RateLine& each : summary.rates) {
    const double seconds = seconds_of(each, size);
    if (seconds > 0) lines[evidence_of(each.kind)].push_back({each.rank, each.step, seconds});
  }
  return lines;
}

/// Per step the slowest rank. A line without a number is the next one of its rank.
std::vector<double> slowest(const std::vector<Timed>& lines, int warmup) {
  std::map<std::int64_t, double> steps;
  std::map<std::optional<int>, std::int64_t> counts;
  for (const Timed& each : lines) {
    const std::int64_t count = ++counts[each.rank];
    double& seconds = steps[each.step.value_or(count)];
    seconds = std::max(seconds, each.seconds);
  }
  std::vector<double> kept;
  for (const auto& [step, seconds] : steps) {
    if (step > warmup) kept.push_back(seconds);
  }
  if (kept.empty() && !steps.empty()) kept.push_back(steps.rbegin()->second);
  return kept;
}

std::optional<double> mean_step(const LogSummary& summary, const StepSize& size) {
  const RunMeans& means = summary.means;
  if (means.step_s) return means.step_s;
  if (means.samples_per_s && size.samples > 0) return size.samples / *means.samples_per_s;
  if (means.tokens_per_s && size.tokens > 0) return size.tokens / *means.tokens_per_s;
  return std::nullopt;
}

}  // namespace

double LoggedStepTimes::median() const { return planwright::median(seconds); }

std::optional<LoggedStepTimes> step_times(const LogSummary& summary, const StepSize& size,
                                          int warmup) {
  const TimedByEvidence lines = timed_lines(summary, size);
  if (!lines.empty()) {
    const auto& [evidence, surest] = *lines.begin();
    return LoggedStepTimes{slowest(surest, warmup), evidence};
  }
  if (const auto mean = mean_step(summary, size)) {
    return LoggedStepTimes{{*mean}, StepEvidence::mean};
  }
  return std::nullopt;
}

}  // namespace planwright::launcher
