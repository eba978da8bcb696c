#include "cli/print_score.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "cli/print_table.h"
#include "cli/score_summary.h"

namespace planwright::cli {
namespace {

constexpr std::size_t kReasonsShown = 20;

Json bytes_json(const std::optional<Bytes>& bytes) { return bytes ? Json(bytes->value) : Json(); }

/// What the row says that it was; nothing where it does not.
void add_measured(const RowScore& score, Json& json) {
  if (score.outcome) json["outcome"] = word(*score.outcome);
  if (!score.measured) return;
  json["mem_kind"] = word(score.memory_kind.value_or(MemoryKind::unknown));
  json["measured_bytes"] = score.measured->value;
  const auto error = score.error();
  json["error"] = error ? Json(*error) : Json();
  if (const auto inside = score.in_range()) json["in_range"] = *inside;
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::vector<std::string> spread_cells(const ScoreSummary& summary, MemoryKind kind) {
  const ErrorSpread spread = spread_of(summary.errors.at(kind));
  const auto inside = summary.in_range.find(kind);
  return {std::string(word(kind)),
          std::to_string(spread.count),
          percent(spread.median),
          percent(spread.p90),
          percent(spread.largest),
          inside == summary.in_range.end() ? "" : std::to_string(inside->second)};
}

/// A line for each kind of memory, the first of them with the counts.
void add_lines(const ScoreSummary& summary, std::vector<std::vector<std::string>>& rows) {
  std::vector<std::string> cells{summary.source, std::to_string(summary.rows),
                                 std::to_string(summary.answered), std::to_string(summary.skipped)};
  if (summary.errors.empty()) rows.push_back(cells);
  for (const auto& [kind, unused] : summary.errors) {
    std::vector<std::string> line = std::exchange(cells, {"", "", "", ""});
    for (std::string& cell : spread_cells(summary, kind)) line.push_back(std::move(cell));
    rows.push_back(std::move(line));
  }
}

std::vector<std::string> verdict_cells(std::string outcome, const VerdictCounts& counts) {
  return {std::move(outcome), std::to_string(counts.fits), std::to_string(counts.too_large),
          std::to_string(counts.invalid)};
}

std::string verdict_table(const ScoreSummary& all, const Paint& paint) {
  return table_text({{"outcome", Align::left},
                     {"fits", Align::right},
                     {"too large", Align::right},
                     {"invalid", Align::right}},
                    {verdict_cells("ok", all.ok), verdict_cells("oom", all.oom),
                     verdict_cells("not said", all.unsaid)},
                    paint);
}

std::string reason_table(const ScoreSummary& all, const Paint& paint) {
  const auto sorted = most_first(all.reasons);
  std::vector<std::vector<std::string>> rows;
  for (const auto& [reason, count] : sorted) {
    if (rows.size() == kReasonsShown) break;
    rows.push_back({std::to_string(count), reason});
  }
  std::string text = table_text({{"skipped", Align::right}, {"because", Align::left}}, rows, paint);
  if (sorted.size() > rows.size()) {
    text += fmt::format("and {} more\n",
                        counted(static_cast<std::int64_t>(sorted.size() - rows.size()), "reason"));
  }
  return text;
}

}  // namespace

Json score_json(const RowScore& score) {
  Json json{{"schema", "planwright.score/1"},
            {"id", score.id},
            {"line", score.line},
            {"status", score.skipped ? "skipped" : "ok"},
            {"reason", score.reason},
            {"assumed", score.assumed},
            {"target", score.target},
            {"verdict", score.verdict ? Json(word(*score.verdict)) : Json()},
            {"peak_allocated_bytes", bytes_json(score.allocated)},
            {"peak_reserved_bytes", bytes_json(score.reserved)},
            {"peak_device_bytes", bytes_json(score.device)},
            {"peak_of", word(score.peak_of)},
            {"peak_allocated_low_bytes", bytes_json(score.least)},
            {"peak_allocated_high_bytes", bytes_json(score.most)}};
  const auto range = score.device_range();
  json["peak_device_low_bytes"] = range ? Json(range->low.value) : Json();
  json["peak_device_high_bytes"] = range ? Json(range->high.value) : Json();
  const bool timed = score.step_time.has_value();
  json["step_time_s"] = timed ? Json(score.step_time->value) : Json();
  json["tokens_per_second_per_device"] = timed ? Json(score.tokens_per_second_per_device) : Json();
  json["fit_probability"] = score.verdict ? Json(score.fit_probability) : Json();
  add_measured(score, json);
  return json;
}

std::string score_text(const std::vector<RowScore>& scores, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const ScoreSummary& each : summarised(scores)) add_lines(each, rows);
  const ScoreSummary all = whole_summary(scores);
  if (!rows.empty()) add_lines(all, rows);
  std::string text = table_text({{"source", Align::left},
                                 {"rows", Align::right},
                                 {"answered", Align::right},
                                 {"skipped", Align::right},
                                 {"memory", Align::left},
                                 {"peaks", Align::right},
                                 {"median", Align::right},
                                 {"90 %", Align::right},
                                 {"largest", Align::right},
                                 {"in range", Align::right}},
                                rows, paint);
  text += fmt::format("\n{}", verdict_table(all, paint));
  if (all.skipped > 0) text += fmt::format("\n{}", reason_table(all, paint));
  if (all.ranges > 0) {
    text += fmt::format("\nof skipped rows with a range {} of {} allocated peaks are in it\n",
                        all.between, all.ranges);
  }
  return text;
}

}  // namespace planwright::cli
