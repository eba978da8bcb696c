#pragma once

#include <cstdint>

#include "estimator/liveness.h"
#include "estimator/spec/activation_offload.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/loss_chunks.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/recompute_plan.h"
#include "estimator/spec/target_traits.h"

namespace planwright::estimator {

/// Everything the sizes of a micro-batch's tensors depend on.
struct StepShape {
  std::int64_t batch = 1;  ///< sequences
  std::int64_t seq = 1;    ///< of the whole sequence,
  std::int64_t cp = 1;     ///< and the ranks that have a part of it each
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;  ///< this rank's share, padding included
  std::int64_t tp = 1;
  bool sp = false;
  std::int64_t ep = 1, etp = 1;
  bool experts = false;  ///< some blocks have them
  Exchange exchange = Exchange::ring;
  std::int64_t threads = 1;
  DType compute = DType::fp32;
  DType gradient = DType::fp32;
  DType product = DType::fp32;  ///< what linear layers of blocks bring their operands to
  bool rotary = true;
  AttentionKernel attention = AttentionKernel::flash;
  LossKernel loss = LossKernel::plain;
  RecomputedModules again{};  ///< of blocks that are not made again as a whole
  bool saves_ops = false;     ///< a block that is made again has results of some operators kept
  bool hidden_dropout = false, attention_dropout = false;
  LoraSpec lora{};
  KernelSet kernels = KernelSet::in_place;
  HfModules modules{};          ///< of the kernel sets transformers and torch_modules
  double stored_weight = 0;     ///< bytes of one that is packed, scales included
  bool keeps_gathered = false;  ///< of flash_attn: see TargetTraits
  TeModules te{};               ///< of the kernel set transformer_engine
  double product_time = 1;      ///< of linear layers' products, of that in the type `compute`
  /// Of the stage, blocks whose forward keeps nothing; of the kernel set transformers.
  std::int64_t dropped_blocks = 0;
  /// A backward's gradients of weights go at once, added to those of an earlier one.
  bool sums_gradients = false;
  ActivationOffload activations{};
  bool torch_stages = false;  ///< of several, which hold their outputs: estimator/torch_stages
  DeviceKind device = DeviceKind::cpu;
  double capability = 0;  ///< of a CUDA device; 0: not known

  std::int64_t tokens() const { return batch * seq / cp; }
  std::int64_t local_tokens() const { return sp ? tokens() / tp : tokens(); }
  std::int64_t e() const { return bytes_of(compute); }                       ///< as runtime.md's e
  std::int64_t g() const { return bytes_of(gradient); }                      ///< as its g
  std::int64_t c() const { return bytes_of(accumulation_type(compute)); }    ///< as its c
  std::int64_t local_unit() const { return e() * local_tokens() * hidden; }  ///< as its u / tp
  bool upcasts() const { return e() != c() && upcasts_logits(loss); }

  bool operator==(const StepShape&) const = default;
};

/// What the target does with them, if the plan offloads any.
ActivationOffload activation_offload(const Problem& problem, const TargetTraits& traits,
                                     const Candidate& candidate);
/// As the target says, with nothing in 8 bits unless the precision has products in them.
TeModules te_modules(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate);

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate);

/// Whether a block that is made again is run to its end, as under a reentrant checkpoint; torch's
/// other one stops with the last tensor that backward needs. Sources: Megatron-LM
/// core/tensor_parallel/random.py, CheckpointFunction @ core_v0.14.0; DeepSpeed
/// runtime/activation_checkpointing/checkpointing.py @ v0.5.10; torch/utils/checkpoint.py,
/// CheckpointFunction and set_checkpoint_early_stop @ 2.11.
bool makes_output_again(const StepShape& shape);

/// A stage's input or its gradient: [tokens, hidden], a rank's share with sequence parallelism.
Tensor hidden_rows(const StepShape& shape, const char* name);
/// With sequence parallelism, every rank's rows of what each has its own of; otherwise of no bytes.
Tensor whole_rows(const StepShape& shape);
Tensor token_ids(const StepShape& shape, const char* name);
/// Statistics of a norm over this rank's rows.
Tensor norm_stats(const StepShape& shape, NormKind norm, const char* name);

}  // namespace planwright::estimator
