#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "estimator/spec/calibration.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/host_rates.h"
#include "estimator/spec/model_spec.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "estimator/spec/workload.h"

/// JSON in and out for every hand-off type. Writers leave default-valued fields out where the type
/// is part of a hash (Problem, Candidate, Calibration) so that a new axis keeps old hashes;
/// readers take an absent field as its default, and throw an InputError that names `source` (a
/// file, or what else the text came from) and the key for anything unknown or of the wrong type.
/// A number that is not finite is written as null and read back as NaN.
///
/// A measured figure is a plain number. One that is not known is null: the accounts `context` and
/// `fragmentation` and the bytes reserved and in use on a CPU, everything measured where the probe
/// did not end well. A rank's list `modelled` names its figures that were not measured.
namespace planwright {

using Json = nlohmann::ordered_json;

Json to_json(const Ledger& ledger);  ///< every account with `_bytes`-free names, bytes as integers
Json to_json(const ModelSpec& model);
Json to_json(const ClusterSpec& cluster);
Json to_json(const Workload& workload);
Json to_json(const Problem& problem);
Json to_json(const Candidate& candidate);
Json to_json(const ProbeScope& scope);
Json to_json(const Calibration& calibration);
/// CLI.md's keys of `estimate`, without schema, candidate and target, which the caller adds.
Json to_json(const Estimate& estimate);
/// CLI.md's keys of `probe`: outcome, ranks[], steps_s[], tokens_per_second_per_device and
/// environment always; out_of_memory and failure are null unless the probe ended so.
Json to_json(const Outcome& outcome);
Json to_json(const Trial& trial);
Json to_json(const HostRates& rates);

/// Every axis, defaults included, in CLI.md's spelling: for results that people and scripts read.
Json full_json(const Candidate& candidate);

ModelSpec model_spec_from_json(const Json& json, const std::string& source);
ClusterSpec cluster_spec_from_json(const Json& json, const std::string& source);
Workload workload_from_json(const Json& json, const std::string& source);
Problem problem_from_json(const Json& json, const std::string& source);
Candidate candidate_from_json(const Json& json, const std::string& source);
ProbeScope probe_scope_from_json(const Json& json, const std::string& source);
Calibration calibration_from_json(const Json& json, const std::string& source);
Estimate estimate_from_json(const Json& json, const std::string& source);
Outcome outcome_from_json(const Json& json, const std::string& source);
Trial trial_from_json(const Json& json, const std::string& source);
HostRates host_rates_from_json(const Json& json, const std::string& source);
Ledger ledger_from_json(const Json& json, const std::string& source);

/// Parses a whole text; an InputError with `source`, line and column if it is not JSON, has a
/// duplicate key, is deeper than 64 levels or longer than 64 MiB.
Json parse_json(const std::string& text, const std::string& source);

/// The text that hashes are taken of: keys sorted, no spaces, shortest round-trip numbers.
std::string canonical_text(const Json& json);

}  // namespace planwright
