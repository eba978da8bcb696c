#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/measured_rows.h"
#include "cli/problem_input.h"

namespace planwright::cli {

/// What a row ran, for the target that its framework is here.
struct RowProblem {
  OneCandidate one;
  PeakOf peak_of = PeakOf::any;      ///< the stage whose peak the row would give
  std::vector<std::string> assumed;  ///< where the row says nothing
  /// Whether it is known how much memory the devices have. Where it is not, those of the problem
  /// only stand for them.
  bool memory_known = true;
  /// Other ways in which it may have run, of which no cell tells.
  std::vector<Candidate> readings;
};

/// Index of the stage whose peak is meant; nothing if it is the fullest's.
std::optional<std::size_t> stage_meant(PeakOf peak_of, const Candidate& candidate);

/// Never looks at what was measured. Nothing is kept free on the devices. An InputError names the
/// column that is missing, or the column and the value that cannot be planned for, and its rule.
RowProblem problem_of(const MeasuredRow& row);

/// The target that the row's framework is, whether this version has it or not; empty if the row
/// names none.
std::string target_of(const MeasuredRow& row);

}  // namespace planwright::cli
