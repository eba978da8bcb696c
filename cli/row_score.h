#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/measured_rows.h"
#include "estimator/spec/calibration.h"
#include "estimator/spec/estimate.h"

namespace planwright::cli {

/// What is predicted for a row, beside what it says was measured. The former never depends on the
/// latter.
struct RowScore {
  std::size_t line = 0;
  std::string id, source, target;
  bool skipped = false;
  std::string reason;  ///< why it is skipped, or does not fit, or is not legal
  std::vector<std::string> assumed;
  std::optional<Verdict> verdict;  ///< absent where it is skipped
  double fit_probability = 0;
  /// Of which stage the peaks are: a row's figure may be that of the stage that its logger ran on.
  PeakOf peak_of = PeakOf::any;
  /// Absent where it is skipped or not legal.
  std::optional<Bytes> allocated, reserved, device;
  std::optional<Seconds> step_time;
  double tokens_per_second_per_device = 0;

  std::optional<Bytes> measured;
  std::optional<MemoryKind> memory_kind;
  std::optional<RowOutcome> outcome;

  /// The prediction of the kind that was measured; what is called nvidia-smi or unknown is all that
  /// the device holds.
  std::optional<Bytes> predicted() const;
  /// Of the prediction, relative to the measurement; absent unless there are both.
  std::optional<double> error() const;
};

/// What was learned for each target, by its name.
using RowLessons = std::map<std::string, Calibration>;

/// From the peaks of rows, and from those that ran out of memory; rows that would be skipped teach
/// nothing, and nothing is learned of time.
RowLessons learn_from(const std::vector<MeasuredRow>& rows);

/// Priced with the data sheets' priors and, where there are any, the lessons for its target.
RowScore score_row(const MeasuredRow& row, const RowLessons& lessons);

}  // namespace planwright::cli
