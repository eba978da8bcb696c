#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "estimator/spec/target_traits.h"

/// What torch's own data parallelism keeps and does: at zero 0 DistributedDataParallel (with one
/// rank the plain model), at 2 and 3 fully_shard, which does not reshard after forward at 2.
namespace planwright::targets {

/// Weights, gradients and states in fp32 (fp64 if that is computed in), which a narrower type is
/// computed in by autocast or by fully_shard's policy. Nullopt for fp8.
std::optional<PrecisionRecipe> torch_recipe(Precision precision);

/// In what the frameworks that use it differ.
struct TorchUse {
  /// Gradients are reduced in the last micro-batch only, and whole on every rank before (no_sync).
  bool defers = false;
  /// fully_shard reduces them in the type that is computed in, not in the recipe's.
  bool reduces_narrow = false;
  bool has_momentum = true;  ///< of the optimizer sgd
  bool fused_adamw = false;  ///< else torch's default, which makes temporary tensors
};

std::vector<Holding> torch_holdings(const TorchUse& use);
Sharding torch_sharding(const TorchUse& use, const Problem& problem, const Candidate& candidate);

/// Sines and cosines as Hugging Face's models make them in each forward.
Holding hugging_face_rotary();

/// Each of the rows, as long as `used`.
std::vector<Holding> only_if(const std::function<bool(const Candidate&)>& used,
                             std::vector<Holding> holdings);

/// Elements of DistributedDataParallel's buckets of so many MiB.
std::int64_t ddp_bucket_elements(std::int64_t mebibytes);

}  // namespace planwright::targets
