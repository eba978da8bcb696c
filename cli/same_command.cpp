#include "cli/same_command.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "cli/storage_input.h"
#include "launcher/user_command_json.h"
#include "studies/history.h"

namespace planwright::cli {
namespace {

/// Of two that differ. A template is known by its text, which no line can show.
bool differ_in_template(const launcher::UserCommand& a, const launcher::UserCommand& b) {
  return a.words == b.words && a.flags == b.flags && a.environment == b.environment;
}

/// The first part of a command that was given.
Setting given_part(const Settings& settings) {
  for (const char* key : {"command", "flags", "template", "environment"}) {
    if (const Setting* given = settings.find(Table::launch, key)) return *given;
  }
  return {"", kCommandLine, "--"};
}

bool is_same_but_for_command(Problem a, const Problem& b) {
  a.target_version = b.target_version;
  return problem_hash(a) == problem_hash(b);
}

/// Whose command is to be compared; nullopt if there is none, or one with this very command.
std::optional<std::string> study_to_compare(studies::Store& store, const std::string& name,
                                            const Problem& problem) {
  std::optional<studies::StudySummary> latest;
  for (auto& each : studies::list_studies(store, {.target = kCommandTarget, .study = name})) {
    if (name.empty() && !is_same_but_for_command(*each.problem, problem)) continue;
    if (each.problem->target_version == problem.target_version) return std::nullopt;
    if (!latest || each.last_activity_unix_s > latest->last_activity_unix_s) {
      latest = std::move(each);
    }
  }
  return latest ? std::optional(latest->name) : std::nullopt;
}

}  // namespace

void require_same_command(const Settings& settings, const WholeCommand& given,
                          const WholeCommand& measured, const std::string& study) {
  if (given.line == measured.line) return;
  const std::string owner = study.empty() ? "the plan" : fmt::format("study {}", study);
  const std::string remedy =
      study.empty() ? "without a command that one is taken"
                    : fmt::format(
                          "emit --study {0}, without a command, takes that one; tune, without "
                          "--study {0}, measures this one",
                          study);
  const Setting* file = settings.find(Table::launch, "template");
  if (file != nullptr && differ_in_template(given.parts, measured.parts)) {
    refuse(*file, fmt::format("is another text than the template that {} was measured with; {}",
                              owner, remedy));
  }
  const Setting place = given_part(settings);
  refuse({given.line, place.file, place.key},
         fmt::format("is another command than {}'s: {}; {}", owner, measured.line, remedy));
}

void require_command_of_study(studies::Store& store, const Settings& settings,
                              const Problem& problem, const launcher::UserCommand& user) {
  if (problem.target != kCommandTarget) return;
  const auto name = study_to_compare(store, given_study(settings), problem);
  if (!name) return;
  const studies::StudyRef study = studies::find_study(store, *name);
  WholeCommand measured{study.problem.target_version};
  const Json kept = studies::kept_command(store, study);
  if (!kept.is_null()) measured.parts = launcher::user_command_from_json(kept, store.path());
  require_same_command(settings, {problem.target_version, user}, measured, study.name);
}

}  // namespace planwright::cli
