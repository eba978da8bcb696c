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

/// A line without a number is the next one of its rank.
class StepNumbers {
 public:
  template <class Line>
  std::int64_t of(const Line& line) {
    const std::int64_t count = ++counts_[line.rank];
    return line.step.value_or(count);
  }

 private:
  std::map<std::optional<int>, std::int64_t> counts_;
};

/// Per step the slowest rank.
LoggedStepTimes slowest(const std::vector<Timed>& lines, StepEvidence evidence, int warmup) {
  std::map<std::int64_t, double> steps;
  StepNumbers numbers;
  for (const Timed& each : lines) {
    double& seconds = steps[numbers.of(each)];
    seconds = std::max(seconds, each.seconds);
  }
  LoggedStepTimes times{{}, evidence};
  for (const auto& [step, seconds] : steps) {
    if (step > warmup) times.seconds.push_back(seconds);
  }
  times.warm = !times.seconds.empty();
  if (!times.warm) times.seconds.push_back(steps.rbegin()->second);
  return times;
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
    return slowest(surest, evidence, warmup);
  }
  if (const auto mean = mean_step(summary, size)) {
    return LoggedStepTimes{{*mean}, StepEvidence::mean};
  }
  return std::nullopt;
}

std::vector<StepLoss> step_losses(const LogSummary& summary) {
  struct Sum {
    double of_finite = 0;
    int count = 0;
  };
  std::map<std::int64_t, Sum> steps;
  StepNumbers numbers;
  for (const LossLine& each : summary.loss_lines) {
    Sum& sum = steps[numbers.of(each)];
    if (!each.loss) continue;
    sum.of_finite += *each.loss;
    ++sum.count;
  }
  std::vector<StepLoss> losses;
  for (const auto& [step, sum] : steps) {
    losses.push_back(
        {step, sum.count > 0 ? std::optional(sum.of_finite / sum.count) : std::nullopt});
  }
  return losses;
}

}  // namespace planwright::launcher
