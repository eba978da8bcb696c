#pragma once

#include <array>
#include <cstdint>

#include "estimator/liveness.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

/// docs/runtime.md as data: the scripts of one micro-batch.
namespace planwright::estimator {

/// Everything the sizes of a micro-batch's tensors depend on.
struct StepShape {
  std::int64_t batch = 1;  ///< sequences
  std::int64_t seq = 1;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t threads = 1;
  DType compute = DType::fp32;
  DType gradient = DType::fp32;
  bool rotary = true;
  KernelSet kernels = KernelSet::in_place;
  DeviceKind device = DeviceKind::cpu;

  std::int64_t tokens() const { return batch * seq; }
  std::int64_t e() const { return bytes_of(compute); }                     ///< as runtime.md's e
  std::int64_t g() const { return bytes_of(gradient); }                    ///< as its g
  std::int64_t c() const { return bytes_of(accumulation_type(compute)); }  ///< as its c
};

StepShape step_shape(const Problem& problem, const TargetTraits& traits,
                     const Candidate& candidate);

/// A block's forward. With `keep` its state stays for backward, otherwise only its output does.
Script block_forward(const StepShape& shape, const BlockSpec& block, bool keep);
/// A block's backward; with `recompute` its state is made again first.
Script block_backward(const StepShape& shape, const BlockSpec& block, bool recompute);

/// Workspace of the attention kernels.
std::int64_t attention_forward_workspace(const StepShape& shape, const BlockSpec& block);
std::int64_t attention_backward_workspace(const StepShape& shape, const BlockSpec& block);

/// Peaks of a whole micro-batch, holdings apart, in the order of Phase; load, reduce and optimizer
/// allocate nothing.
std::array<Peaks, kWordCount<Phase>> micro_batch_peaks(const StepShape& shape,
                                                       const ModelSpec& model, bool recompute);

}  // namespace planwright::estimator
