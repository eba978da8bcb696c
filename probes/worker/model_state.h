#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "estimator/spec/flat_layout.h"
#include "estimator/spec/problem.h"
#include "probes/worker/weights.h"

namespace planwright::worker {

at::ScalarType scalar_type(DType type);

/// Parameters and gradients as flat buffers, and the model's weights as views into them.
struct ModelState {
  FlatLayout layout;
  at::Tensor parameters;  ///< [layout.numel], storage type
  at::Tensor gradients;   ///< [layout.numel], gradient type; not set
  ModelWeights weights;
};

/// Builds the buffers and sets the weights: matrices and embeddings uniform with a standard
/// deviation of 0.02, norm weights 1, biases 0. A weight depends on seed, tensor name and index
/// only, so every layout starts from the same model. The padding is 0.
ModelState load_model(const Problem& problem, const FlatLayout& layout, std::uint64_t seed,
                      at::Device device);

/// The stretch of a flat buffer that holds `tensor`, in its shape.
at::Tensor tensor_view(const at::Tensor& flat, const FlatTensor& tensor);

}  // namespace planwright::worker
