#include "cli/named_axes.h"

#include <fmt/format.h>

#include "cli/command_input.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/command/axes.h"

namespace planwright::cli {

void require_named_axes(const Settings& settings, const ProblemInput& input) {
  if (input.problem.target != kCommandTarget) return;
  const bool divides = input.problem.workload.global_batch > 0 &&
                       launcher::names_placeholder(input.user, "accumulation");
  if (divides || !targets::command::named_axes(input.user).empty()) return;
  const Setting place = command_setting(settings);
  refuse({"", place.file, place.key},
         fmt::format("names nothing of a plan, so that there is nothing to tune: put {{{}}} in it, "
                     "as your script spells them, or the words for one into [launch.flags]",
                     fmt::join(targets::command::tunable_axes(), "} or {")));
}

void explain_unnamed(const ProblemInput& input, search::Space& space) {
  if (input.problem.target != kCommandTarget) return;
  for (auto& [name, broken] : space.examples) {
    broken = targets::command::explained(input.user, broken);
  }
}

void explain_unnamed(const ProblemInput& input, const Candidate& candidate, Estimate& estimate) {
  const bool trains = input.problem.workload.job != Job::inference;
  if (input.problem.target != kCommandTarget || !trains || estimate.verdict != Verdict::invalid) {
    return;
  }
  const auto broken = broken_rule(input.problem, input.traits(), candidate);
  if (broken) estimate.reason = reason_text(targets::command::explained(input.user, *broken));
}

}  // namespace planwright::cli
