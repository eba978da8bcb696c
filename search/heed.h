#pragma once

#include <vector>

#include "estimator/spec/trial.h"
#include "search/evidence.h"
#include "search/rank.h"

/// Where the model's own word was wrong, it is believed less in the next round. The refit corrects
/// what coefficients can express; this is about what they cannot.
namespace planwright::search {

/// Lowers the probabilities of fitting after devices ran out of memory although the model said the
/// plan fits: an error that made one plan too large is likely to be shared by those that are larger
/// still. Each such trial halves the probability of every candidate of the same or a larger
/// predicted size; each measured plan that is as large as the candidate makes up for one of them.
void heed_out_of_memory(Ranking& ranking, const Evidence& evidence);

/// Widens the spread of the predicted times if the predictions, as they were made before their
/// measurements, missed by more than the spread they claimed. A fit with as many coefficients as
/// trials leaves small residuals whatever the truth; predictions of the untried are the honest
/// test. With z = ln(measured / predicted) / claimed deviation, over the first measurement of each
/// candidate, the deviations grow by the root of (k + sum z²) / (k + n), if that is above 1.
/// k = kSpreadPriorWeight is what the model's claim counts for beside the n trials.
void heed_surprises(Ranking& ranking, const std::vector<Trial>& history);

constexpr double kSpreadPriorWeight = 2;

/// Corrects and widens the times of a stand-in's plans by what was measured of others
/// (estimator::ShapeError): its time grows with the micro-batch like itself, not like the model.
void heed_shape(Ranking& ranking, const Space& space, const Evidence& evidence,
                const std::vector<Trial>& history);

}  // namespace planwright::search
