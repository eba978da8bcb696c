#include "launcher/targets/builtin/emit.h"

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::targets::builtin {
namespace {

void require_legal(const launcher::PlanFile& plan) {
  if (const auto broken = broken_rule(plan.problem, traits(), plan.candidate)) {
    throw InputError(
        {"candidate", broken->name, describe(plan.candidate), broken->text, broken->fix});
  }
}

}  // namespace

launcher::LaunchConfig emit(const launcher::EmitRequest& request) {
  require_legal(request.plan);
  launcher::LaunchConfig config;
  const std::string path = request.out + "/plan.json";
  config.files = {{path, to_json(request.plan).dump(2) + "\n"}};
  config.command = {"planwright", "probe",   "--plan",
                    path,         "--steps", std::to_string(request.steps)};
  config.environment = {
      {"OMP_NUM_THREADS", std::to_string(request.plan.problem.cluster.threads_per_rank)}};
  config.evidence = request.plan.evidence.kind;
  if (config.evidence == launcher::EvidenceKind::predicted) {
    config.warnings.push_back("this plan is predicted, not measured");
  }
  return config;
}

launcher::Target target() { return {traits(), emit}; }

}  // namespace planwright::targets::builtin
