#include "launcher/plan_file.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "estimator/spec/error.h"
#include "estimator/spec/soundness.h"
#include "estimator/spec/text_file.h"
#include "launcher/user_command_json.h"

namespace planwright::launcher {
namespace {

constexpr const char* kSchema = "planwright.plan_file/1";
/// A plan is a few KiB; what is longer is another file.
constexpr std::size_t kSizeLimit = std::size_t{16} << 20;

void require_known_keys(const Json& json, const std::vector<std::string>& known,
                        const std::string& source, const std::string& prefix) {
  if (!json.is_object()) {
    throw InputError({source, prefix, json.type_name(), "must be a JSON object", ""});
  }
  for (const auto& [key, value] : json.items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    throw InputError({source, prefix + key, "", "is not a key of a plan file",
                      nearest_word(key, known, prefix)});
  }
}

const Json& required(const Json& json, const std::string& key, const std::string& source) {
  const auto found = json.find(key);
  if (found == json.end()) throw InputError({source, key, "", "is missing from the plan file", ""});
  return *found;
}

template <class Number>
std::optional<Number> optional_number(const Json& json, const char* key,
                                      const std::string& source) {
  const auto found = json.find(key);
  if (found == json.end() || found->is_null()) return std::nullopt;
  constexpr bool kWhole = std::is_integral_v<Number>;
  const bool fits = kWhole ? found->is_number_integer() : found->is_number();
  if (!fits || found->get<double>() < 0) {
    throw InputError(
        {source, std::string("evidence.") + key, found->dump(),
         kWhole ? "must be a whole number, not negative" : "must be a number, not negative", ""});
  }
  return found->get<Number>();
}

std::string text_at(const Json& json, const char* key, const std::string& source) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (!found->is_string()) {
    throw InputError({source, std::string("evidence.") + key, found->dump(), "must be text", ""});
  }
  return found->get<std::string>();
}

Json to_json(const Evidence& evidence) {
  Json json{{"kind", word(evidence.kind)}};
  if (!evidence.study.empty()) json["study"] = evidence.study;
  if (evidence.trial) json["trial"] = *evidence.trial;
  if (evidence.step_time_s) json["step_time_s"] = *evidence.step_time_s;
  if (evidence.tokens_per_second_per_device) {
    json["tokens_per_second_per_device"] = *evidence.tokens_per_second_per_device;
  }
  if (evidence.allocated_peak) json["allocated_peak_bytes"] = evidence.allocated_peak->value;
  return json;
}

Evidence evidence_from_json(const Json& json, const std::string& source) {
  require_known_keys(json,
                     {"kind", "study", "trial", "step_time_s", "tokens_per_second_per_device",
                      "allocated_peak_bytes"},
                     source, "evidence.");
  Evidence evidence;
  evidence.kind = parse_word<EvidenceKind>(text_at(json, "kind", source), source, "evidence.kind");
  evidence.study = text_at(json, "study", source);
  evidence.trial = optional_number<std::int64_t>(json, "trial", source);
  evidence.step_time_s = optional_number<double>(json, "step_time_s", source);
  evidence.tokens_per_second_per_device =
      optional_number<double>(json, "tokens_per_second_per_device", source);
  if (const auto peak = optional_number<std::int64_t>(json, "allocated_peak_bytes", source)) {
    evidence.allocated_peak = Bytes{*peak};
  }
  return evidence;
}

}  // namespace

PlanFile plan_of(const Problem& problem, const Trial& trial, const std::string& study) {
  PlanFile plan{problem, trial.candidate, {}};
  Evidence& evidence = plan.evidence;
  evidence.study = study;
  if (trial.number >= 0) evidence.trial = trial.number;
  if (const Measurement* const measured = trial.outcome.measurement()) {
    evidence.kind = EvidenceKind::measured;
    evidence.step_time_s = measured->step_time_s;
    evidence.tokens_per_second_per_device = measured->tokens_per_second_per_device;
    const Bytes peak = measured->allocated_peak();
    if (peak > Bytes{}) evidence.allocated_peak = peak;
  } else if (!trial.estimate.stages.empty()) {
    evidence.step_time_s = trial.estimate.step_time.value;
    evidence.tokens_per_second_per_device = trial.estimate.tokens_per_second_per_device;
    evidence.allocated_peak = trial.estimate.peak().accounts.allocated();
  }
  return plan;
}

Json to_json(const PlanFile& plan) {
  return {{"schema", kSchema},
          {"problem", planwright::to_json(plan.problem)},
          {"candidate", planwright::to_json(plan.candidate)},
          {"evidence", to_json(plan.evidence)}};
}

Json plan_file_json(const PlanFile& plan, const UserCommand& user) {
  Json json = to_json(plan);
  if (!user.words.empty() || !user.environment.empty()) json["command"] = to_json(user);
  return json;
}

PlanFile plan_file_from_json(const Json& json, const std::string& source) {
  require_known_keys(json, {"schema", "problem", "candidate", "evidence", "command"}, source, "");
  const Json& schema = required(json, "schema", source);
  if (schema != kSchema) {
    throw InputError(
        {source, "schema", schema.dump(), "is not the schema of a plan file", kSchema});
  }
  PlanFile plan;
  plan.problem = problem_from_json(required(json, "problem", source), source);
  require_sound(plan.problem, source);
  plan.candidate = candidate_from_json(required(json, "candidate", source), source);
  plan.evidence = evidence_from_json(required(json, "evidence", source), source);
  return plan;
}

PlanFile load_plan_file(const std::string& path) {
  return plan_file_from_json(parse_json(read_given_file(path, kSizeLimit), path), path);
}

UserCommand load_plan_command(const std::string& path) {
  const Json json = parse_json(read_given_file(path, kSizeLimit), path);
  const auto command = json.find("command");
  return command == json.end() ? UserCommand{} : user_command_from_json(*command, path);
}

}  // namespace planwright::launcher
