#pragma once

#include <array>
#include <cstdint>

#include "estimator/liveness.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/loss_chunks.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

/// docs/runtime.md as data: the scripts of a micro-batch's parts, on one rank.
namespace planwright::estimator {

/// Everything the sizes of a micro-batch's tensors depend on.
struct StepShape {
  std::int64_t batch = 1;  ///< sequences
  std::int64_t seq = 1;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;  ///< this rank's share, padding included
  std::int64_t tp = 1;
  bool sp = false;
  std::int64_t threads = 1;
  DType compute = DType::fp32;
  DType gradient = DType::fp32;
  bool rotary = true;
  AttentionKernel attention = AttentionKernel::flash;
  LossKernel loss = LossKernel::plain;
  bool recompute_core = false;
  bool hidden_dropout = false, attention_dropout = false;
  LoraSpec lora{};
  KernelSet kernels = KernelSet::in_place;
  DeviceKind device = DeviceKind::cpu;

  std::int64_t tokens() const { return batch * seq; }
  std::int64_t local_tokens() const { return sp ? tokens() / tp : tokens(); }
  std::int64_t e() const { return bytes_of(compute); }                       ///< as runtime.md's e
  std::int64_t g() const { return bytes_of(gradient); }                      ///< as its g
  std::int64_t c() const { return bytes_of(accumulation_type(compute)); }    ///< as its c
  std::int64_t local_unit() const { return e() * local_tokens() * hidden; }  ///< as its u / tp
  bool upcasts() const { return e() != c() && upcasts_logits(loss); }
};

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate);

/// What a block leaves of its forward for its backward.
enum class Keep { state, nothing };

// Blocks are given as the model has them; the scripts take this rank's share. `x` is not theirs.

/// Makes y.
Script block_forward(const StepShape& shape, const BlockSpec& block, Keep keep);
/// Makes the state again, and y only with `output`.
Script block_rebuild(const StepShape& shape, const BlockSpec& block, bool output);
/// Drops the state and x; dy becomes dx.
Script block_backward(const StepShape& shape, const BlockSpec& block);

/// A stage's input or its gradient: [tokens, hidden], a rank's share with sequence parallelism.
Tensor hidden_rows(const StepShape& shape, const char* name);
Tensor token_ids(const StepShape& shape, const char* name);

/// Makes x from ids.
Script embedding_forward(const StepShape& shape);
/// Drops neither dy nor ids.
Script embedding_backward(const StepShape& shape);
/// The final norm.
Script head_forward(const StepShape& shape, NormKind norm);
/// Logits of `rows` tokens, the loss, and the head's backward, which drops them.
Script head_product(const StepShape& shape, std::int64_t rows);
Script loss(const StepShape& shape, std::int64_t rows);
Script head_product_backward(const StepShape& shape, std::int64_t rows);
/// Drops what the head made and the last block's output; leaves dy.
Script head_backward(const StepShape& shape, NormKind norm);

/// Workspace of the attention kernels, of this rank's share of the heads.
std::int64_t attention_forward_workspace(const StepShape& shape, const BlockSpec& share);
std::int64_t attention_backward_workspace(const StepShape& shape, const BlockSpec& share);

}  // namespace planwright::estimator
