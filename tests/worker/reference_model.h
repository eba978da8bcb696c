#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

#include "estimator/spec/model_spec.h"
#include "probes/worker/transformer.h"

namespace planwright::worker::testing {

/// The sum of the token losses of a micro-batch, out of plain operators, differentiable by
/// `weights` (by tensor name). Written from the models' papers, not from the worker, but for which
/// elements are dropped.
at::Tensor reference_loss(const ModelSpec& model, const std::map<std::string, at::Tensor>& weights,
                          const MicroBatch& micro_batch, const Dropout& dropout);

}  // namespace planwright::worker::testing
