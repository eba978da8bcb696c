#include "estimator/spec/json.h"

#include "estimator/spec/json_fields.h"

namespace planwright {
namespace {

using json_io::Form;

template <class T>
T read(const Json& json, const std::string& source) {
  T value;
  json_io::decode(json, json_io::Place(source), value);
  return value;
}

}  // namespace

Json to_json(const Ledger& ledger) { return json_io::encode(ledger, Form::full); }
Json to_json(const ModelSpec& model) { return json_io::encode(model, Form::sparse); }
Json to_json(const ClusterSpec& cluster) { return json_io::encode(cluster, Form::sparse); }
Json to_json(const Workload& workload) { return json_io::encode(workload, Form::sparse); }
Json to_json(const Problem& problem) { return json_io::encode(problem, Form::sparse); }
Json to_json(const Candidate& candidate) { return json_io::encode(candidate, Form::sparse); }
Json to_json(const ProbeScope& scope) { return json_io::encode(scope, Form::full); }
Json to_json(const Calibration& calibration) { return json_io::encode(calibration, Form::sparse); }
Json to_json(const Estimate& estimate) { return json_io::encode(estimate, Form::full); }
Json to_json(const Outcome& outcome) { return json_io::encode(outcome, Form::full); }
Json to_json(const Trial& trial) { return json_io::encode(trial, Form::full); }
Json to_json(const HostRates& rates) { return json_io::encode(rates, Form::full); }

Json full_json(const Candidate& candidate) { return json_io::encode(candidate, Form::full); }

ModelSpec model_spec_from_json(const Json& json, const std::string& source) {
  return read<ModelSpec>(json, source);
}
ClusterSpec cluster_spec_from_json(const Json& json, const std::string& source) {
  return read<ClusterSpec>(json, source);
}
Workload workload_from_json(const Json& json, const std::string& source) {
  return read<Workload>(json, source);
}
Problem problem_from_json(const Json& json, const std::string& source) {
  return read<Problem>(json, source);
}
Candidate candidate_from_json(const Json& json, const std::string& source) {
  return read<Candidate>(json, source);
}
ProbeScope probe_scope_from_json(const Json& json, const std::string& source) {
  return read<ProbeScope>(json, source);
}
Calibration calibration_from_json(const Json& json, const std::string& source) {
  return read<Calibration>(json, source);
}
Estimate estimate_from_json(const Json& json, const std::string& source) {
  return read<Estimate>(json, source);
}
Outcome outcome_from_json(const Json& json, const std::string& source) {
  return read<Outcome>(json, source);
}
Trial trial_from_json(const Json& json, const std::string& source) {
  return read<Trial>(json, source);
}
HostRates host_rates_from_json(const Json& json, const std::string& source) {
  return read<HostRates>(json, source);
}
Ledger ledger_from_json(const Json& json, const std::string& source) {
  return read<Ledger>(json, source);
}

}  // namespace planwright
