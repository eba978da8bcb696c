#include "launcher/targets/builtin/emit.h"

#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::targets::builtin {
namespace {

void require_legal(const launcher::PlanFile& plan) {
  for (const Rule& rule : traits().rules) {
    if (!rule.broken(plan.problem, plan.candidate)) continue;
    throw InputError({"candidate", rule.name, describe(plan.candidate),
                      fill_rule_text(rule.text, plan.problem, plan.candidate),
                      fill_rule_text(rule.fix, plan.problem, plan.candidate)});
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
