#include "estimator/spec/pipeline.h"

#include <algorithm>

namespace planwright {
namespace {

/// Puts a stage's steps together and knows its place in the pipeline.
class Steps {
 public:
  Steps(int stage, int stages) : first_(stage == 0), last_(stage == stages - 1) {}

  void forward(std::int64_t micro_batch) {
    steps_.push_back({PipelineStep::Kind::forward, micro_batch, {}});
  }
  void backward(std::int64_t micro_batch) {
    steps_.push_back({PipelineStep::Kind::backward, micro_batch, {}});
  }
  void handover(Handover h) {
    h.receive_forward &= !first_;
    h.send_backward &= !first_;
    h.send_forward &= !last_;
    h.receive_backward &= !last_;
    if (h.any()) steps_.push_back({PipelineStep::Kind::handover, 0, h});
  }
  std::vector<PipelineStep> take() { return std::move(steps_); }

 private:
  bool first_, last_;
  std::vector<PipelineStep> steps_;
};

/// Turns of a stage's chunks, of which `micro_batches` take each; the k-th forward and backward.
struct ChunkTurns {
  int stage, stages, chunks;
  std::int64_t micro_batches;

  std::int64_t total() const { return micro_batches * chunks; }
  std::int64_t warmup() const {
    const std::int64_t wanted =
        std::int64_t{2} * (stages - stage - 1) + std::int64_t{chunks - 1} * stages;
    return std::min(wanted, total());
  }
  int forward_chunk(std::int64_t k) const {
    return static_cast<int>(k % (std::int64_t{stages} * chunks) / stages);
  }
  int backward_chunk(std::int64_t k) const { return chunks - 1 - forward_chunk(k); }
  bool is_start(int chunk) const { return stage == 0 && chunk == 0; }
  bool is_end(int chunk) const { return stage == stages - 1 && chunk == chunks - 1; }
  /// Of the group that the k-th turn is in.
  std::int64_t micro_batch(std::int64_t k) const {
    return k / (std::int64_t{stages} * chunks) * stages + k % stages;
  }
  /// What goes out after the forward and the backward that were last, and comes in for the next;
  /// -1: there is none.
  Handover handover(std::int64_t forward, std::int64_t backward, std::int64_t next_forward,
                    std::int64_t next_backward) const {
    const auto is = [&](std::int64_t k) { return k >= 0 && k < total(); };
    return {.receive_forward = is(next_forward) && !is_start(forward_chunk(next_forward)),
            .send_forward = is(forward) && !is_end(forward_chunk(forward)),
            .receive_backward = is(next_backward) && !is_end(backward_chunk(next_backward)),
            .send_backward = is(backward) && !is_start(backward_chunk(backward))};
  }
};

constexpr Handover kReceiveForward{.receive_forward = true};
constexpr Handover kSendForward{.send_forward = true};
constexpr Handover kReceiveBackward{.receive_backward = true};
constexpr Handover kSendBackward{.send_backward = true};

}  // namespace

std::int64_t in_flight(Schedule schedule, int stage, int stages, std::int64_t micro_batches) {
  if (schedule == Schedule::gpipe) return micro_batches;
  return std::min<std::int64_t>(stages - stage, micro_batches);
}

std::vector<PipelineStep> pipeline_steps(Schedule schedule, int stage, int stages,
                                         std::int64_t micro_batches) {
  Steps steps(stage, stages);
  const bool gpipe = schedule == Schedule::gpipe;
  const std::int64_t warmup =
      gpipe ? micro_batches : in_flight(schedule, stage, stages, micro_batches) - 1;
  for (std::int64_t i = 0; i < warmup; ++i) {
    steps.handover(kReceiveForward);
    steps.forward(i);
    steps.handover(kSendForward);
  }
  if (warmup < micro_batches) steps.handover(kReceiveForward);
  for (std::int64_t i = warmup; i < micro_batches; ++i) {
    steps.forward(i);
    steps.handover({.send_forward = true, .receive_backward = true});
    steps.backward(i - warmup);
    steps.handover({.receive_forward = i + 1 < micro_batches, .send_backward = true});
  }
  for (std::int64_t i = micro_batches - warmup; i < micro_batches; ++i) {
    steps.handover(kReceiveBackward);
    steps.backward(i);
    steps.handover(kSendBackward);
  }
  return steps.take();
}

std::vector<PipelineStep> interleaved_steps(int stage, int stages, int chunks,
                                            std::int64_t micro_batches) {
  using Kind = PipelineStep::Kind;
  const ChunkTurns turns{stage, stages, chunks, micro_batches};
  const std::int64_t total = turns.total(), warmup = turns.warmup();
  std::vector<PipelineStep> steps;
  const auto hand_over = [&](const Handover& handover) {
    if (handover.any()) steps.push_back({Kind::handover, 0, handover});
  };
  hand_over(turns.handover(-1, -1, 0, -1));
  for (std::int64_t k = 0; k < total + warmup; ++k) {
    const std::int64_t forward = k < total ? k : -1, backward = k - warmup;
    if (forward >= 0) {
      steps.push_back({Kind::forward, turns.micro_batch(k), {}, turns.forward_chunk(k)});
    }
    if (backward >= 0) {
      steps.push_back(
          {Kind::backward, turns.micro_batch(backward), {}, turns.backward_chunk(backward)});
    }
    hand_over(turns.handover(forward, backward, forward < 0 ? -1 : k + 1, backward + 1));
  }
  return steps;
}

}  // namespace planwright
