#include "cli/saved_plan.h"

#include <fmt/core.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "launcher/files.h"
#include "launcher/plan_file.h"
#include "launcher/target.h"

namespace planwright::cli {
namespace {

constexpr const char* kInstead = "another file";

/// What a plan of the problem may turn out to be the same as.
bool holds_prediction_of(const std::string& path, const Problem& problem) {
  try {
    const launcher::PlanFile plan = launcher::load_plan_file(path);
    return plan.problem == problem && plan.evidence == launcher::Evidence{};
  } catch (const InputError&) {
    return false;
  }
}

}  // namespace

void require_savable(const Setting& file, const Problem& problem) {
  if (problem.workload.job == Job::inference) {
    refuse(file, "is for jobs that train: a server has no plan");
  }
  const std::string fault = launcher::unwritable(file.text);
  if (!fault.empty()) refuse(file, fault);
  std::error_code error;
  if (!std::filesystem::exists(file.text, error)) return;
  if (!holds_prediction_of(file.text, problem)) {
    refuse(file, std::string(launcher::kOtherContent), kInstead);
  }
}

void save_plan(const Setting& file, const Problem& problem, const Candidate& candidate,
               const Console& console) {
  const launcher::PlanFile plan{problem, candidate, {}};
  launcher::LaunchConfig config;
  config.files = {{file.text, to_json(plan).dump(2) + "\n"}};
  launcher::write_files(config, false, {file.key, kInstead});
  console.story(fmt::format("wrote {}", file.text));
}

}  // namespace planwright::cli
