#pragma once

#include "estimator/quantities.h"
#include "estimator/spec/calibration.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/problem.h"

/// The job `inference`, which no target's traits are asked about: a server with tensor and pipeline
/// parallel ranks and replicas of them. The workload's seq is the context of every sequence, its
/// global batch the sequences at once over all replicas.
namespace planwright::estimator {

/// One step that continues every sequence by a token.
Quantities quantify_serving(const Problem& problem, const Candidate& candidate);

/// As estimate() of price.h, and what a server is asked about besides.
Estimate estimate_serving(const Problem& problem, const Candidate& candidate,
                          const Calibration& calibration);

}  // namespace planwright::estimator
