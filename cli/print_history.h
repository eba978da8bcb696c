#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "studies/history.h"

namespace planwright::cli {

std::string studies_text(const std::vector<studies::StudySummary>& studies, const Paint& paint);
Json studies_json(const std::vector<studies::StudySummary>& studies);

std::string best_text(const std::vector<studies::StudyTrial>& trials, const Paint& paint);
std::string trial_text(const studies::StudyTrial& shown, const Paint& paint);
Json trial_rows_json(const std::vector<studies::StudyTrial>& trials);

/// "2026-03-01 12:00:05", UTC.
std::string utc_text(double unix_s);

}  // namespace planwright::cli
