#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"

/// Pipelines of torch.distributed.pipelining: in which order a rank takes micro-batches of its
/// stages, which are called its chunks here. Every one that it has is a part of the model, as far
/// apart as there are ranks. Source: pytorch torch/distributed/pipelining/schedules.py @ v2.11.0.
namespace planwright::estimator {

struct TorchStageAction {
  enum class Kind {
    forward,
    backward,
    backward_of_input,    ///< which leaves the gradients of weights
    backward_of_weights,  ///< to this one
  };
  Kind kind = Kind::forward;
  int chunk = 0;
  std::int64_t micro_batch = 0;
  bool operator==(const TorchStageAction&) const = default;
};

/// Micro-batches that go through one chunk before the next one's turn: about as many as there are
/// ranks, and such that all rounds have as many.
std::int64_t torch_round(int ranks, std::int64_t micro_batches);

/// Of a step's micro-batches as many as show all that there is to see: of interleaved stages a
/// whole round is like the one before, and with 1F1B a forward and a backward in turn.
std::int64_t torch_shown(Schedule schedule, int rank, int ranks, int chunks,
                         std::int64_t micro_batches);

/// Buffers for inputs and for gradients of outputs that a rank has of each micro-batch from the
/// first step on, and what is beside them until the next step, as a backward in two leaves the
/// gradients of its inputs. Source: the same, stage.py, _prepare_forward_infra,
/// _prepare_backward_infra, clear_runtime_states; _backward.py, stage_backward_input.
int torch_buffers(Schedule schedule, int rank, int ranks, int chunks);

/// A rank's whole step: ScheduleGPipe, Schedule1F1B, ScheduleInterleaved1F1B and, where every
/// backward is in two, ScheduleInterleavedZeroBubble.
std::vector<TorchStageAction> torch_stage_actions(Schedule schedule, int rank, int ranks,
                                                  int chunks, std::int64_t micro_batches);

}  // namespace planwright::estimator
