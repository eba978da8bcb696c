#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cli/row_score.h"

namespace planwright::cli {

/// Relative errors without their sign, of one kind of memory.
struct ErrorSpread {
  std::int64_t count = 0;
  double median = 0, p90 = 0, largest = 0;
};
/// Nearest ranks: each figure is one of the errors.
ErrorSpread spread_of(std::vector<double> errors);

/// How runs that are published to have ended so were judged.
struct VerdictCounts {
  std::int64_t fits = 0, too_large = 0, invalid = 0;
  void add(Verdict verdict);
};

/// How well rows of one origin were predicted.
struct ScoreSummary {
  std::string source;
  std::int64_t rows = 0, answered = 0, skipped = 0;
  std::int64_t with_peak = 0, peaks_answered = 0;  ///< rows that carry a peak, and those predicted
  std::map<std::string, std::int64_t> reasons;     ///< why rows were skipped
  std::map<MemoryKind, std::vector<double>> errors;
  std::map<MemoryKind, std::int64_t> in_range;  ///< of those that are not what is allocated
  /// Allocated peaks of rows that were skipped because readings are far apart, and those between.
  std::int64_t ranges = 0, between = 0;
  VerdictCounts ok, oom, unsaid;  ///< by what the rows say of the outcome

  void add(const RowScore& score);
};

/// By origin, the largest first.
std::vector<ScoreSummary> summarised(const std::vector<RowScore>& scores);
/// Of them all.
ScoreSummary whole_summary(const std::vector<RowScore>& scores);

}  // namespace planwright::cli
