#include "launcher/targets/builtin/emit.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::targets::builtin {
namespace {

void require_legal(const launcher::EmitRequest& request) {
  const launcher::PlanFile& plan = request.plan;
  if (const auto broken = broken_rule(plan.problem, traits(), plan.candidate)) {
    throw InputError(
        {request.source, "candidate", describe(plan.candidate), reason_text(*broken), ""});
  }
}

}  // namespace

launcher::LaunchConfig emit(const launcher::EmitRequest& request) {
  require_legal(request);
  launcher::LaunchConfig config;
  const std::string path = (std::filesystem::path(request.out) / "plan.json").string();
  config.files = {{path, plan_file_json(request.plan, request.user).dump(2) + "\n"}};
  const int steps = request.steps == 0 ? ProbeScope{}.steps : request.steps;
  config.command = {"planwright", "probe", "--plan", path, "--steps", std::to_string(steps)};
  config.environment = request.user.environment;
  config.environment.emplace("OMP_NUM_THREADS",
                             std::to_string(request.plan.problem.cluster.threads_per_rank));
  config.evidence = request.plan.evidence.kind;
  if (config.evidence == launcher::EvidenceKind::predicted) {
    config.warnings.emplace_back("this plan is predicted, not measured");
  }
  return config;
}

launcher::Target target() { return {.traits = traits(), .emit = emit, .has_worker = true}; }

}  // namespace planwright::targets::builtin
