#pragma once

#include "estimator/spec/units.h"

namespace planwright {

/// What a step's time goes into; the parts sum to it.
struct TimeSplit {
  Seconds compute, recompute;
  Seconds communication;  ///< exposed: what computation waits for
  Seconds bubble;         ///< waiting for neighbouring stages
  Seconds optimizer, offload;
  bool operator==(const TimeSplit&) const = default;
  Seconds total() const {
    return compute + recompute + communication + bubble + optimizer + offload;
  }
};

}  // namespace planwright
