#include "studies/history.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/console.h"
#include "cli/print_history.h"
#include "cli/storage_input.h"
#include "cli/verbs.h"
#include "estimator/models.h"

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

/// What list and best are restricted to.
struct Filter {
  studies::HistoryFilter fields;
  std::vector<Setting> given;
};

Filter read_filter(const Settings& settings) {
  Filter filter;
  const auto read = [&](Table table, const char* name, std::string& into) {
    const Setting* setting = settings.find(table, name);
    if (setting == nullptr) return;
    into = setting->text;
    filter.given.push_back(*setting);
  };
  read(Table::model, "model", filter.fields.model);
  if (std::filesystem::exists(filter.fields.model)) {
    const Setting& model = filter.given.back();
    filter.fields.model = estimator::find_model(model.text, model.file, model.key).name;
  }
  read(Table::cluster, "device", filter.fields.device);
  read(Table::job, "target", filter.fields.target);
  read(Table::storage, "study", filter.fields.study);
  return filter;
}

void warn_if_none(bool none, const Filter& filter, const Console& console) {
  if (!none || filter.given.empty()) return;
  std::string text;
  for (const Setting& each : filter.given) text += fmt::format(" {} {}", each.key, each.text);
  console.warning(fmt::format("nothing matches{}", text));
}

void list(studies::Store& store, const Settings& settings, const Console& console) {
  const Filter filter = read_filter(settings);
  const auto found = studies::list_studies(store, filter.fields);
  warn_if_none(found.empty(), filter, console);
  console.print(studies_text(found, console.result_paint()));
  console.print_json(studies_json(found));
}

void best(studies::Store& store, const Settings& settings, const Console& console) {
  const Filter filter = read_filter(settings);
  const auto found = studies::best_trials(store, filter.fields);
  warn_if_none(found.empty(), filter, console);
  console.print(best_text(found, console.result_paint()));
  console.print_json(trial_rows_json(found));
}

void show(studies::Store& store, const Settings& settings, std::int64_t number,
          const Console& console) {
  const studies::StudyRef study = studies::find_study(store, given_study(settings));
  const auto shown = studies::show_trial(store, study, number);
  console.print(trial_text(shown, console.result_paint()));
  console.print_json(trial_rows_json({shown}));
}

void refuse_filters(const Settings& settings) {
  for (const Setting& each : read_filter(settings).given) {
    if (each.key != "--study") refuse(each, "is for history list and best");
  }
}

/// What is asked; `number` is the trial to show.
struct Question {
  std::string word;
  std::int64_t number = 0;
};

Question read_question(const std::vector<std::string>& words) {
  Question question;
  question.word = words.empty() ? "" : words.front();
  const std::vector<std::string> valid{"list", "best", "show"};
  const Setting place{question.word, kCommandLine, "history"};
  if (std::find(valid.begin(), valid.end(), question.word) == valid.end()) {
    refuse(place, "must be list, best or show N", nearest_word(question.word, valid));
  }
  const std::size_t needed = question.word == "show" ? 2 : 1;
  if (words.size() < needed) refuse(place, "needs the number of a trial", "show 0");
  if (words.size() > needed) refuse(place, "takes no further argument");
  if (needed == 2) question.number = parse_integer({words[1], kCommandLine, "history show"}, 0);
  return question;
}

}  // namespace

int run_history(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const Question question = read_question(line.words);
  if (question.word == "show") refuse_filters(line.settings);
  studies::Store store =
      studies::Store::open(storage_path(line.settings), studies::OpenMode::read_only);
  if (question.word == "list") list(store, line.settings, console);
  if (question.word == "best") best(store, line.settings, console);
  if (question.word == "show") show(store, line.settings, question.number, console);
  console.warnings(store.take_warnings());
  return kExitDone;
}

}  // namespace planwright::cli
