#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_score.h"
#include "cli/verbs.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "score",
    .summary = "How far predictions are from measurements that others published.",
    .arguments = "ROWS.csv",
    .example = "planwright score tests/data/measured/pretrain.csv",
    .own = {"calibrate-on"},
    .most_words = 1,
};

/// The rows of a file, of which those that cannot be read are named.
std::vector<MeasuredRow> read_rows(const std::string& path, const Console& console) {
  std::vector<MeasuredRow> rows = read_measured_rows(path);
  for (const MeasuredRow& row : rows) {
    if (!row.fault.empty()) console.warning(row.fault);
  }
  return rows;
}

bool any_can_be_read(const std::vector<MeasuredRow>& rows) {
  return std::any_of(rows.begin(), rows.end(),
                     [](const MeasuredRow& row) { return row.fault.empty(); });
}

RowLessons read_lessons(const Settings& settings, const Console& console) {
  const Setting* other = settings.find(Table::none, "calibrate-on");
  if (other == nullptr) return {};
  const std::vector<MeasuredRow> rows = read_rows(other->text, console);
  if (!any_can_be_read(rows)) refuse(*other, "has no row that can be read");
  return learn_from(rows);
}

}  // namespace

int run_score(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);
  if (line.words.empty()) {
    throw InputError({kCommandLine, "ROWS.csv", "", "is required: the rows to be predicted", ""});
  }

  const std::vector<MeasuredRow> rows = read_rows(line.words.front(), console);
  const RowLessons lessons = read_lessons(line.settings, console);
  std::vector<RowScore> scores;
  for (const MeasuredRow& row : rows) {
    scores.push_back(score_row(row, lessons));
    console.print_json(score_json(scores.back()));
  }
  if (!console.json()) console.print(score_text(scores, console.result_paint()));
  if (rows.empty() || any_can_be_read(rows)) return kExitDone;
  console.failure(fmt::format("{}: none of the rows can be read", line.words.front()));
  return kExitWrongInput;
}

}  // namespace planwright::cli
