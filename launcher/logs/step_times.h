#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "launcher/logs/log_summary.h"

namespace planwright::launcher {

/// What one optimizer step of the job is, over all its devices.
struct StepSize {
  double tokens = 0;
  double samples = 0;
  int devices = 1;
};

/// How sure a step's time is, the surest first.
enum class StepEvidence : std::uint8_t { stated, parts, step_rate, sample_rate, token_rate, mean };

struct LoggedStepTimes {
  std::vector<double> seconds;  ///< per step, the slowest rank of those that state it; at least one
  StepEvidence evidence = StepEvidence::stated;
  bool warm = true;  ///< false if no line stands behind the warm-up
  double median() const;
};

/// The steps' times from the surest evidence there is, without those of steps up to `warmup`: by
/// their number where lines state it, else the first lines. If nothing is left, the last line is.
/// Of a log that states a mean only, that one. nullopt if it says nothing of time.
std::optional<LoggedStepTimes> step_times(const LogSummary& summary, const StepSize& size,
                                          int warmup);

struct StepLoss {
  std::int64_t step = 0;       ///< as lines state it, else counted from 1
  std::optional<double> mean;  ///< of the ranks that state a finite one; none if no rank does
};
/// In the order of the steps.
std::vector<StepLoss> step_losses(const LogSummary& summary);

}  // namespace planwright::launcher
