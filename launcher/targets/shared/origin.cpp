#include "launcher/targets/shared/origin.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "planwright_version.h"

namespace planwright::targets {
namespace {

using launcher::Evidence;

std::string evidence_line(const Evidence& evidence) {
  std::string line(word(evidence.kind));
  if (evidence.kind == launcher::EvidenceKind::predicted) line += ", not measured";
  if (!evidence.study.empty()) line += fmt::format("; study {}", evidence.study);
  if (evidence.trial) line += fmt::format(", trial {}", *evidence.trial);
  return line;
}

Json evidence_json(const Evidence& evidence) {
  Json json{{"kind", word(evidence.kind)}};
  json["study"] = evidence.study.empty() ? Json() : Json(evidence.study);
  json["trial"] = evidence.trial ? Json(*evidence.trial) : Json();
  return json;
}

}  // namespace

std::vector<std::string> origin_lines(const launcher::EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  return {fmt::format("Written by planwright {} for {} {}.", kVersion, problem.target,
                      problem.target_version),
          fmt::format("model: {}, {} x {}", problem.model.name, problem.cluster.devices(),
                      problem.cluster.device.name),
          fmt::format("plan: {} (candidate {})", describe(candidate), candidate_hash(candidate)),
          fmt::format("problem: {}", problem_hash(problem)),
          fmt::format("evidence: {}", evidence_line(evidence))};
}

std::string origin_json(const launcher::EmitRequest& request,
                        const launcher::LaunchConfig& config) {
  const auto& [problem, candidate, evidence] = request.plan;
  Json files = Json::array();
  for (const launcher::EmittedFile& file : config.files) files.push_back(file.path);
  const Json json{{"schema", "planwright.origin/1"},
                  {"planwright", kVersion},
                  {"target", problem.target},
                  {"target_version", problem.target_version},
                  {"model", problem.model.name},
                  {"problem", problem_hash(problem)},
                  {"candidate", candidate_hash(candidate)},
                  {"plan", describe(candidate)},
                  {"evidence", evidence_json(evidence)},
                  {"files", files},
                  {"command", config.command},
                  {"environment", config.environment},
                  {"warnings", config.warnings}};
  return json.dump(2) + "\n";
}

}  // namespace planwright::targets
