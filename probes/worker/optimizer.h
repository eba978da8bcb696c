#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/spec/workload.h"
#include "probes/worker/adafactor.h"
#include "probes/worker/element_updates.h"
#include "probes/worker/model_state.h"
#include "probes/worker/optimizer_slice.h"

namespace planwright::worker {

/// The workload's optimizer over the elements that this rank owns: its slice of each bucket of the
/// state's layout. With a master copy that one is updated and the stored weights follow.
class Optimizer {
 public:
  /// Refers to the state's buffers. Allocates in the optimizer account. Throws
  /// std::invalid_argument if the worker has no such optimizer, or not for such shards.
  Optimizer(const Workload& workload, const ModelState& state);

  /// One update from the gradients times `gradient_factor`. Allocates nothing. The gradients are
  /// not to be read afterwards.
  void step(double gradient_factor = 1);

  /// Where the owned elements' gradients stand.
  std::vector<at::Tensor> gradients() const;

 private:
  OptimizerKind kind_;
  std::int64_t steps_ = 0;
  std::vector<OptimizerSlice> slices_;
  at::Tensor master_, moments1_, moments2_, counter_;
  std::optional<Adafactor> adafactor_;
};

}  // namespace planwright::worker
