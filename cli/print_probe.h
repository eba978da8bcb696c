#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "cli/print_table.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/problem.h"

namespace planwright::cli {

/// What a measured probe did, or how it ended; one clause: "ok, 0.1523 GiB, 1301 tokens/s/device",
/// "out of memory: rank 1 asked for ...".
std::string outcome_text(const Outcome& outcome, const Paint& paint,
                         std::string_view rate_unit = kTokenRate);

/// The same in few words: "ran out of memory", "timed out"; "was measured" for a probe that ran.
std::string ending_text(OutcomeKind kind);

/// Warnings about a measurement: "the measurement was disturbed: other processes used 37 % of the
/// CPUs", or how its program died after its steps.
std::vector<std::string> oddities_of(const Outcome& outcome);

/// Predicted and measured side by side, by account at the worst rank's peak.
std::string probe_text(const Problem& problem, const Candidate& candidate, const ProbeScope& scope,
                       const Estimate& estimate, const Outcome& outcome, const Paint& paint);

/// CLI.md's document of `probe`, without its schema.
Json probe_json(const Problem& problem, const Candidate& candidate, const ProbeScope& scope,
                const Estimate& estimate, const Outcome& outcome);

}  // namespace planwright::cli
