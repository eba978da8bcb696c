#pragma once

#include <string>

#include "cli/console.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

namespace planwright::cli {

/// "llama-7b, 8 x A100-SXM4-80GB, builtin, pretrain bf16, seq 4096, global batch 64".
std::string problem_text(const Problem& problem);

/// The verdict, the memory ledger in GiB at the worst rank's peak, and where a step's time goes.
std::string estimate_text(const Problem& problem, const TargetTraits& traits,
                          const Candidate& candidate, const Estimate& estimate, const Paint& paint);

/// The estimate, with null in place of what is only of the stand-in for a model that nobody knows.
Json known_json(const Problem& problem, const Estimate& estimate);

/// CLI.md's document of `estimate`, without its schema.
Json estimate_json(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
                   const Estimate& estimate);

}  // namespace planwright::cli
