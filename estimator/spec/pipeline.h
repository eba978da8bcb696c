#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"

/// In which order one stage takes its micro-batches, and when it talks to its neighbours.
namespace planwright {

/// What a stage sends and receives at once. A stage has nothing to send or receive at the ends of
/// the pipeline: those flags are off there.
struct Handover {
  bool receive_forward = false;   ///< the next micro-batch's input, from the stage before
  bool send_forward = false;      ///< the last forward's output, to the stage after
  bool receive_backward = false;  ///< that output's gradient, from the stage after
  bool send_backward = false;     ///< the last backward's input gradient, to the stage before
  bool any() const { return receive_forward || send_forward || receive_backward || send_backward; }
  bool operator==(const Handover&) const = default;
};

struct PipelineStep {
  enum class Kind { forward, backward, handover };
  Kind kind = Kind::forward;
  std::int64_t micro_batch = 0;  ///< of forward and backward
  Handover handover;
  int chunk = 0;  ///< of the stage's layers, those that a forward or backward is of
  bool operator==(const PipelineStep&) const = default;
};

/// Micro-batches whose forward is done before the first backward: all of them with GPipe, one for
/// each later stage and one more with 1F1B. Source: Narayanan et al. (2021), arXiv:2104.04473,
/// section 2.2.1.
std::int64_t in_flight(Schedule schedule, int stage, int stages, std::int64_t micro_batches);

/// A stage's whole step. GPipe: every forward, then every backward, both in order. 1F1B: after the
/// warm-up, forward and backward in turn. What goes out and what comes in between two of them is
/// one handover, so that neighbours that send to each other do not wait for each other.
/// Source: NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py @ core_v0.15,
/// forward_backward_pipelining_without_interleaving.
std::vector<PipelineStep> pipeline_steps(Schedule schedule, int stage, int stages,
                                         std::int64_t micro_batches);

/// The same of stages that have `chunks` parts of the model each, every stages-th one:
/// micro-batches go in groups of `stages`, which take a chunk after the other. Source:
/// NVIDIA/Megatron-LM megatron/core/pipeline_parallel/schedules.py @ core_v0.15,
/// forward_backward_pipelining_with_interleaving, with sends and receives together.
std::vector<PipelineStep> interleaved_steps(int stage, int stages, int chunks,
                                            std::int64_t micro_batches);

}  // namespace planwright
