#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli/measured_rows.h"
#include "cli/row_problem.h"
#include "estimator/spec/calibration.h"

/// What measured rows teach for others.
namespace planwright::cli {

/// What was learned of one target.
struct TargetLessons {
  std::map<std::string, Calibration> of_origin;  ///< from the rows of each
  Calibration common;                            ///< for an origin that none of them is of
};
/// By the target's name.
using RowLessons = std::map<std::string, TargetLessons>;

/// From the peaks of rows, and from those that ran out of memory; rows that would be skipped teach
/// nothing, and nothing is learned of time.
RowLessons learn_from(const std::vector<MeasuredRow>& rows);

/// What was learned for the target from rows of this origin, or else from those of others; nullptr
/// if there are none.
const Calibration* lesson_for(const RowLessons& lessons, const std::string& target,
                              const std::string& origin);

}  // namespace planwright::cli
