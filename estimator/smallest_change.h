#pragma once

#include <functional>
#include <optional>

#include "estimator/quantities.h"

namespace planwright::estimator {

/// The legal candidate that fits and differs least from one that does not: first those that change
/// one of attention (to flash), loss (to fused, then chunked), ZeRO stage (up), micro-batch (down,
/// the largest that fits) and recompute (to full), then two of them, and so on. Nothing if none of
/// these fits.
std::optional<Candidate> smallest_change(const Problem& problem, const TargetTraits& traits,
                                         const Candidate& candidate,
                                         const std::function<bool(const Candidate&)>& fits);

}  // namespace planwright::estimator
