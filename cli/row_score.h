#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/measured_rows.h"
#include "cli/row_lessons.h"
#include "estimator/spec/estimate.h"

namespace planwright::cli {

struct BytesRange {
  Bytes low, high;
};

/// What is predicted for a row, beside what it says was measured. The former never depends on the
/// latter.
struct RowScore {
  std::size_t line = 0;
  std::string id, source, target;
  bool skipped = false;
  std::string reason;  ///< why it is skipped, or does not fit, or is not legal
  std::vector<std::string> assumed;
  /// Absent where it is skipped, or where the devices' memory is not known.
  std::optional<Verdict> verdict;
  double fit_probability = 0;
  /// Of which stage the peaks are: a row's figure may be that of the stage that its logger ran on.
  PeakOf peak_of = PeakOf::any;
  /// Absent where it is skipped or not legal.
  std::optional<Bytes> allocated, reserved, device;
  /// Of what is allocated, the least and the most in all the ways that the row may have run in;
  /// there too where it is skipped because they are far apart.
  std::optional<Bytes> least, most;
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
  /// Where a peak of another kind than what is allocated is expected; absent where it is skipped.
  std::optional<BytesRange> device_range() const;
  /// Whether the measured peak, of another kind, is there; absent unless there are both.
  std::optional<bool> in_range() const;
  /// Whether what was allocated is between the least and the most; absent unless there are all.
  std::optional<bool> between_readings() const;
};

/// Priced with the data sheets' priors and, where there are any, the lessons for it.
RowScore score_row(const MeasuredRow& row, const RowLessons& lessons);

}  // namespace planwright::cli
