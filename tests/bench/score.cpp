#include <fmt/core.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "cli/measured_rows.h"
#include "cli/row_score.h"
#include "cli/score_summary.h"
#include "tests/support/markdown.h"

/// Predictions beside published measurements, by origin: `bench_score [ROWS.csv...]`, by default
/// the tables of tests/data/measured. First as the data sheets' priors have them, over all rows;
/// then after what a random twentieth of the rows has taught, over the rest.
namespace planwright::testing {
namespace {

constexpr double kTaught = 0.05;
constexpr std::uint64_t kSeed = 0;
constexpr std::size_t kReasons = 3;
constexpr std::size_t kLongestReason = 90;

using Rows = std::vector<cli::MeasuredRow>;
using Scores = std::vector<cli::RowScore>;

Rows read_rows(const std::vector<std::string>& paths) {
  Rows rows;
  for (const std::string& path : paths) {
    const Rows more = cli::read_measured_rows(path);
    rows.insert(rows.end(), more.begin(), more.end());
  }
  return rows;
}

/// Fisher and Yates, by hand: the standard's shuffle differs from library to library.
void shuffle(Rows& rows) {
  std::mt19937_64 random(kSeed);
  for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random() % i]);
}

Scores score(const Rows& rows, const cli::RowLessons& lessons) {
  Scores scores;
  for (const cli::MeasuredRow& row : rows) scores.push_back(cli::score_row(row, lessons));
  return scores;
}

Scores taught_scores(Rows rows) {
  shuffle(rows);
  const auto count = static_cast<std::ptrdiff_t>(kTaught * static_cast<double>(rows.size()));
  const Rows taught(rows.begin(), rows.begin() + count);
  return score({rows.begin() + count, rows.end()}, cli::learn_from(taught));
}

std::string percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string counts_text(const cli::VerdictCounts& counts) {
  return fmt::format("{} / {} / {}", counts.fits, counts.too_large, counts.invalid);
}

std::string reasons_text(const cli::ScoreSummary& summary) {
  std::vector<std::pair<std::int64_t, std::string>> sorted;
  for (const auto& [reason, count] : summary.reasons) sorted.emplace_back(count, reason);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text;
  for (std::size_t i = 0; i < std::min(sorted.size(), kReasons); ++i) {
    const std::string& reason = sorted[i].second;
    text += fmt::format("{}{} x {}", i == 0 ? "" : "; ", sorted[i].first,
                        reason.substr(0, std::min(reason.find(", which has"), kLongestReason)));
  }
  if (sorted.size() > kReasons) text += "; ...";
  return text;
}

/// Of one origin: a row for each kind of memory.
void add_rows(MarkdownTable& table, const cli::ScoreSummary& summary) {
  std::vector<std::vector<std::string>> spreads;
  for (const auto& [kind, errors] : summary.errors) {
    const cli::ErrorSpread spread = cli::spread_of(errors);
    const auto inside = summary.in_range.find(kind);
    spreads.push_back({std::string(word(kind)), std::to_string(spread.count),
                       percent(spread.median), percent(spread.p90), percent(spread.largest),
                       inside == summary.in_range.end() ? "" : std::to_string(inside->second)});
  }
  if (spreads.empty()) spreads.push_back({"", "", "", "", "", ""});
  bool first = true;
  for (const auto& spread : spreads) {
    std::vector<std::string> cells{"", "", "", ""};
    if (first) {
      cells = {summary.source, std::to_string(summary.rows), std::to_string(summary.answered),
               fmt::format("{}/{}", summary.peaks_answered, summary.with_peak)};
    }
    cells.insert(cells.end(), spread.begin(), spread.end());
    for (const auto* counts : {&summary.ok, &summary.oom, &summary.unsaid}) {
      cells.push_back(first ? counts_text(*counts) : "");
    }
    cells.push_back(first ? reasons_text(summary) : "");
    table.add(std::move(cells));
    first = false;
  }
}

void print(const std::string& title, const Scores& scores) {
  MarkdownTable table({"source", "rows", "answered", "of peaks", "memory", "peaks", "median",
                       "90 %", "largest", "in range", "ok", "oom", "no outcome", "skipped"});
  for (const cli::ScoreSummary& each : cli::summarised(scores)) add_rows(table, each);
  const cli::ScoreSummary all = cli::whole_summary(scores);
  add_rows(table, all);
  fmt::print("\n{}; outcomes as fits / too large / invalid:\n\n{}", title, table.text());
  fmt::print("\n{} of {} allocated peaks of skipped rows are between their readings\n", all.between,
             all.ranges);
}

void run(const std::vector<std::string>& paths) {
  const Rows rows = read_rows(paths);
  print("Uncalibrated, all rows", score(rows, {}));
  print("Calibrated on a random 5 % of the rows, the rest", taught_scores(rows));
}

}  // namespace
}  // namespace planwright::testing

int main(int argc, char** argv) {
  std::vector<std::string> paths(argv + 1, argv + argc);
  const std::string folder = PLANWRIGHT_SOURCE_DIR "/tests/data/measured/";
  if (paths.empty()) paths = {folder + "pretrain.csv", folder + "finetune.csv"};
  try {
    planwright::testing::run(paths);
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
