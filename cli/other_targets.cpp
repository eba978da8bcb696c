#include "cli/other_targets.h"

#include <fmt/core.h>

#include <vector>

#include "cli/problem_input.h"
#include "cli/targets.h"
#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"

namespace planwright::cli {
namespace {

bool accepted(const Settings& settings, const Accepts& accepts) {
  try {
    return accepts(settings);
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

bool accepts_candidate(const Settings& settings) {
  const auto [input, candidate, place] = read_one_candidate(settings);
  return !broken_rule(input.problem, input.traits(), candidate);
}

bool accepts_space(const Settings& settings) {
  const ManyCandidates many = read_many_candidates(settings);
  return !search::enumerate(many.input.problem, many.input.traits(), many.space).legal.empty();
}

std::string with_other_targets(const std::string& reason, const Settings& settings,
                               const Accepts& accepts) {
  const Setting* given = settings.find(Table::job, "target");
  const std::string refused = given == nullptr ? "builtin" : given->text;
  if (refused == kCommandTarget) return reason;  // another would not run the same command
  std::vector<std::string> others;
  for (const std::string& name : target_names()) {
    if (name == refused || name == kCommandTarget) continue;
    Settings moved = settings;
    moved.set(Table::job, "target", {name, kCommandLine, "--target"});
    if (accepted(moved, accepts)) others.push_back(name);
  }
  if (others.empty()) return reason;
  return fmt::format("{}; it is accepted as it stands with --target {}", reason,
                     join_words(others));
}

}  // namespace planwright::cli
