#pragma once

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
};

/// Never looks at what was measured. Nothing is kept free on the devices. An InputError names the
/// column that is missing, or the column and the value that cannot be planned for, and its rule.
RowProblem problem_of(const MeasuredRow& row);

/// The target that the row's framework is, whether this version has it or not; empty if the row
/// names none.
std::string target_of(const MeasuredRow& row);

}  // namespace planwright::cli
