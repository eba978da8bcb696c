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
  /// Whether a single rank is DistributedDataParallel's, too; null or false: that takes several.
  bool (*replicates_one)(const Problem&) = nullptr;
  /// Whether AdamW is the fused one; null or false: torch's default, which makes temporary tensors.
  bool (*fused_adamw)(const Candidate&) = nullptr;
  /// Whether FSDP1 shards, whose flat parameters split and join again; null or false: fully_shard.
  bool (*fsdp1)(const Candidate&) = nullptr;
  bool keeps_head = false;  ///< fully_shard does not reshard norm and head after their forward
  /// Whether modules see weights of other types than they compute in; null: at zero 0 and 1.
  bool (*autocasts)(const Candidate&) = nullptr;
  /// Blocks are transformers' modules: estimator/hf_program makes their casts, and a frozen base is
  /// loaded in the type that is computed in.
  bool transformers = false;
  /// The same of torch's own modules, on GPUs: estimator/torch_program.
  bool torch_modules = false;
  /// The same of litgpt's modules, whose frozen base is stored as the trained weights are, or in 4
  /// bits with its head.
  bool litgpt = false;
};

/// What --offload may say: nothing, or all that is sharded, to the host.
std::vector<Offload> offloads_of_all_states();

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
