#include "cli/saved_plan.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "launcher/plan_file.h"
#include "launcher/target.h"

namespace planwright::cli {

void save_plan(const Setting& file, const Problem& problem, const Candidate& candidate,
               const Console& console) {
  if (problem.workload.job == Job::inference) {
    refuse(file, "is for jobs that train: a server has no plan");
  }
  const launcher::PlanFile plan{problem, candidate, {}};
  launcher::LaunchConfig config;
  config.files = {{file.text, to_json(plan).dump(2) + "\n"}};
  launcher::write_files(config, false, {file.key, "another file"});
  console.story(fmt::format("wrote {}", file.text));
}

}  // namespace planwright::cli
