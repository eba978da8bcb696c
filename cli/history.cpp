#include "studies/history.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_history.h"
#include "cli/storage_input.h"
#include "cli/verbs.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "history",
    .summary =
        "What was measured before: every study, the best plan of each problem, or one trial.",
    .arguments = "list | best | show N",
    .example = "planwright history best --storage build/demo/demo.db",
    .tables = {Table::storage},
    .own = {"model", "device", "target"},
    .most_words = 2,
};

studies::HistoryFilter read_filter(const Settings& settings) {
  const auto text = [&](Table table, const char* name) {
    const Setting* setting = settings.find(table, name);
    return setting == nullptr ? std::string() : setting->text;
  };
  return {text(Table::model, "model"), text(Table::cluster, "device"), text(Table::job, "target")};
}

void list(studies::Store& store, const CommandLine& line, const Console& console) {
  const auto found = studies::list_studies(store, read_filter(line.settings));
  console.print(studies_text(found, console.result_paint()));
  console.print_json(studies_json(found));
}

void best(studies::Store& store, const CommandLine& line, const Console& console) {
  const auto found = studies::best_trials(store, read_filter(line.settings));
  console.print(best_text(found, console.result_paint()));
  console.print_json(trial_rows_json(found));
}

void show(studies::Store& store, const CommandLine& line, const Console& console) {
  const Setting number{line.words.at(1), kCommandLine, "history show"};
  const studies::StudyRef study = studies::find_study(store, given_study(line.settings));
  const auto shown = studies::show_trial(store, study, parse_integer(number, 0));
  console.print(trial_text(shown, console.result_paint()));
  console.print_json(trial_rows_json({shown}));
}

using Question = void (*)(studies::Store&, const CommandLine&, const Console&);

Question read_question(const CommandLine& line) {
  const std::string word = line.words.empty() ? "" : line.words.front();
  const std::size_t needed = word == "show" ? 2 : 1;
  const Setting place{word, kCommandLine, "history"};
  if (word != "list" && word != "best" && word != "show") {
    refuse(place, "must be list, best or show N", nearest_word(word, {"list", "best", "show"}));
  }
  if (line.words.size() < needed) refuse(place, "needs the number of a trial", "show 0");
  if (line.words.size() > needed) refuse(place, "takes no further argument");
  return word == "list" ? list : word == "best" ? best : show;
}

}  // namespace

int run_history(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const Question answer = read_question(line);
  studies::Store store =
      studies::Store::open(storage_path(line.settings), studies::OpenMode::read_only);
  answer(store, line, console);
  for (const std::string& warning : store.take_warnings()) console.warning(warning);
  return kExitDone;
}

}  // namespace planwright::cli
