#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/units.h"

/// What a training script says of itself in the file that PLANWRIGHT_REPORT names: one JSON object,
/// or one per line. Keys, all of them optional but one of the first two:
///
///     {"step_time_s": 0.42}               seconds of a step, warm-up left out
///     {"tokens_per_second": 12000}        of all ranks together
///     {"peak_bytes": 8589934592}          of the worst device
///     {"step": 3, "time_s": 0.41, "peak_bytes": 8589934592, "loss": 2.1}
///
/// Steps are counted from 1, or from 0 if there is one of that number. A loss that is not finite is
/// null, or the word that Python's json writes for it (NaN). Lines with a `step` are a step's; the
/// last of the others speaks for the whole run.
namespace planwright::launcher {

struct ReportedStep {
  std::int64_t step = 0;
  double time_s = 0;
};

struct CommandReport {
  std::optional<double> step_time_s, tokens_per_second;
  std::optional<Bytes> peak;
  std::vector<ReportedStep> steps;
  std::vector<double> losses;
  std::optional<std::int64_t> lost_step;  ///< the first one whose loss is not a finite number
  std::vector<std::string> ignored;       ///< what is no figure, a clause each, the first few:
                                          ///< "stepp is no key of PLANWRIGHT_REPORT; ..."
  std::string problem;                    ///< what is wrong with it, and where; empty if nothing is

  bool is_useful() const {
    return problem.empty() && (step_time_s || tokens_per_second || !steps.empty());
  }
};

/// nullopt if there is no such file, or an empty one.
std::optional<CommandReport> read_command_report(const std::string& path);

}  // namespace planwright::launcher
