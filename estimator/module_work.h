#pragma once

#include "estimator/quantities.h"
#include "estimator/step_shape.h"

namespace planwright::estimator {

/// What selective recomputation makes again of a block in a micro-batch.
Work modules_again_work(const StepShape& shape, const BlockSpec& block);

}  // namespace planwright::estimator
