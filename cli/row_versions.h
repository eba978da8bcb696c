#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/row_cells.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/workload.h"

/// What a row's versions and days tell of how its framework's modules ran, and what they leave
/// open: cli/data/row_versions.csv and row_readings.csv.
namespace planwright::cli {

bool has_knob(const std::vector<Knob>& knobs, const std::string& name);

/// "4.45.2" as numbers, which compare as versions do.
using Version = std::vector<int>;

/// The version of a package that a list such as "torch 2.4.1, transformers 4.48.1" names.
std::optional<Version> version_named(const std::string& list, std::string_view package);

/// Of the target's knobs those that a package's version decides: the version that the row names,
/// else the newest one on the day that its source is of. What is assumed says so.
std::vector<std::pair<std::string, std::string>> version_knobs(RowCells& cells,
                                                               const std::vector<Knob>& knobs);

/// The candidate in all other ways that a row of the job may have run in, which no cell tells apart
/// from it: those that its versions and its day allow and that the target has knobs for.
std::vector<Candidate> other_readings(const MeasuredRow& row, const std::vector<Knob>& knobs,
                                      const Candidate& candidate, Job job);

}  // namespace planwright::cli
