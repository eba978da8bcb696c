#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "estimator/spec/flat_layout.h"
#include "estimator/spec/problem.h"
#include "probes/worker/weights.h"

namespace planwright::worker {

at::ScalarType scalar_type(DType type);

/// Which of the flat buffers hold only the slices of one rank of the layout's.
struct Sharding {
  bool parameters = false;  ///< ZeRO 3
  bool gradients = false;   ///< ZeRO 2 and 3
  int rank = 0;
};

/// A flat buffer and how it is laid out; [layout.numel], or [layout.shard_numel()] where it is
/// sharded.
struct FlatParameters {
  const FlatLayout& layout;
  const at::Tensor& values;
};

/// Parameters and gradients as flat buffers, and the model's weights as views into them.
struct ModelState {
  FlatLayout layout;  ///< of what is trained
  FlatLayout frozen_layout;
  ModelPart part;
  Sharding sharding;
  at::Tensor parameters, frozen;  ///< storage type
  at::Tensor gradients;           ///< gradient type; not set
  ModelWeights weights;

  FlatParameters trained_parameters() const { return {layout, parameters}; }
  FlatParameters frozen_parameters() const { return {frozen_layout, frozen}; }
};

/// Builds the buffers and sets the weights: matrices and embeddings uniform with a standard
/// deviation of 0.02, norm weights 1, biases 0. A weight depends on seed, tensor name and its place
/// in the whole tensor only, so every layout starts from the same model. The padding is 0. Weights
/// and gradients that are not sharded are bound.
ModelState load_model(const Problem& problem, const ModelPart& part, const FlatLayout& layout,
                      const Sharding& sharding, std::uint64_t seed, at::Device device);

/// Of the whole model on one rank.
ModelState load_model(const Problem& problem, const FlatLayout& layout, std::uint64_t seed,
                      at::Device device);

/// Lets the weights of one bucket's tensors be views into `storage`, which holds that bucket alone;
/// an undefined one takes the views away. `layout`: either of the state's.
void bind_parameters(ModelState& state, const FlatLayout& layout, std::size_t bucket,
                     const at::Tensor& storage);
void bind_gradients(ModelState& state, std::size_t bucket, const at::Tensor& storage);

/// A whole bucket of a flat buffer that is not sharded.
at::Tensor bucket_view(const at::Tensor& flat, const FlatBucket& bucket);

/// The slice of a bucket that the rank owns, of a buffer of this layout.
at::Tensor own_slice(const FlatLayout& layout, const Sharding& sharding, const FlatBucket& bucket,
                     const at::Tensor& flat, bool sharded);
/// Of parameters or gradients that are trained.
at::Tensor own_slice(const ModelState& state, const FlatBucket& bucket, const at::Tensor& flat,
                     bool sharded);

/// The stretch of a flat buffer that holds `tensor`, in its shape.
at::Tensor tensor_view(const at::Tensor& flat, const FlatTensor& tensor);

}  // namespace planwright::worker
