#pragma once

#include "launcher/targets/shared/version.h"

/// What is not the same in all versions of Megatron Core that these files are for, 0.14 to 0.19.
/// Read in NVIDIA/Megatron-LM @ core_r0.14.0 to core_r0.19.0.
namespace planwright::targets::megatron {

inline bool is_since(const Problem& problem, int minor) {
  return target_version(problem) >= Version{0, minor};
}

/// megatron/core/transformer/transformer_config.py: more tensor ranks than key/value heads.
inline bool replicates_kv_heads(const Problem& problem) { return is_since(problem, 16); }

/// megatron/core/pipeline_parallel/fine_grained_activation_offload.py.
inline bool offloads_modules(const Problem& problem) { return is_since(problem, 16); }

/// megatron/core/transformer/transformer_block.py: the last of the chunks may have fewer blocks.
inline bool cuts_last_chunk(const Problem& problem) { return is_since(problem, 17); }

/// megatron/training/arguments.py: from then on it refuses Transformer Engine's cross entropy.
inline bool has_fused_loss(const Problem& problem) { return !is_since(problem, 18); }

/// megatron/training/training.py, --log-memory-interval: before, memory is logged once.
inline bool logs_memory_again(const Problem& problem) { return is_since(problem, 16); }

/// megatron/training/arguments.py, --megatron-fsdp-main-grads-dtype: of the weights' type by
/// default.
inline bool has_fsdp_types(const Problem& problem) { return is_since(problem, 17); }

/// NullTokenizer: the end of a document is a token beside the vocabulary.
inline bool adds_a_token(const Problem& problem) { return !is_since(problem, 18); }

}  // namespace planwright::targets::megatron
