#include "cli/score_summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace planwright::cli {
namespace {

/// The least value that at least `share` of the sorted ones do not exceed.
double at_share(const std::vector<double>& sorted, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(sorted.size())));
  return sorted.at(std::max<std::size_t>(rank, 1) - 1);
}

VerdictCounts& counts_of(ScoreSummary& summary, std::optional<RowOutcome> outcome) {
  if (!outcome) return summary.unsaid;
  return *outcome == RowOutcome::ok ? summary.ok : summary.oom;
}

}  // namespace

ErrorSpread spread_of(std::vector<double> errors) {
  if (errors.empty()) return {};
  for (double& error : errors) error = std::abs(error);
  std::sort(errors.begin(), errors.end());
  return {static_cast<std::int64_t>(errors.size()), at_share(errors, 0.5), at_share(errors, 0.9),
          errors.back()};
}

void VerdictCounts::add(Verdict verdict) {
  switch (verdict) {
    case Verdict::fits:
      ++fits;
      break;
    case Verdict::too_large:
      ++too_large;
      break;
    case Verdict::invalid:
      ++invalid;
      break;
  }
}

void ScoreSummary::add(const RowScore& score) {
  ++rows;
  with_peak += score.measured ? 1 : 0;
  if (score.skipped) {
    ++skipped;
    ++reasons[score.reason];
    if (const auto inside = score.between_readings()) {
      ++ranges;
      between += *inside ? 1 : 0;
    }
    return;
  }
  ++answered;
  if (score.verdict) counts_of(*this, score.outcome).add(*score.verdict);
  if (const auto error = score.error()) {
    ++peaks_answered;
    const MemoryKind kind = score.memory_kind.value_or(MemoryKind::unknown);
    errors[kind].push_back(*error);
    if (const auto inside = score.in_range()) in_range[kind] += *inside ? 1 : 0;
  }
}

std::vector<ScoreSummary> summarised(const std::vector<RowScore>& scores) {
  std::map<std::string, ScoreSummary> by_origin;
  for (const RowScore& score : scores) {
    ScoreSummary& summary = by_origin[origin_of(score.source)];
    summary.source = origin_of(score.source);
    summary.add(score);
  }
  std::vector<ScoreSummary> all;
  for (const auto& [origin, summary] : by_origin) all.push_back(summary);
  std::stable_sort(all.begin(), all.end(),
                   [](const ScoreSummary& a, const ScoreSummary& b) { return a.rows > b.rows; });
  return all;
}

ScoreSummary whole_summary(const std::vector<RowScore>& scores) {
  ScoreSummary all;
  all.source = "all";
  for (const RowScore& score : scores) all.add(score);
  return all;
}

}  // namespace planwright::cli
