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

}  // namespace planwright
