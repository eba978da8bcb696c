#include <algorithm>

#include "estimator/stage_run.h"
#include "estimator/torch_stages.h"

namespace planwright::estimator {

namespace {

/// Of interleaved stages a whole round is like the one before.
std::int64_t shown_in_stages(const StageStep& s) {
  if (s.schedule == Schedule::gpipe) return s.micro_batches;
  if (s.chunks > 1) {
    return std::min(s.micro_batches, kRoundsShown * torch_round(s.stages, s.micro_batches));
  }
  return std::min<std::int64_t>(s.micro_batches, s.stages - s.stage + 2);
}

}  // namespace

/// Of a chunk's inputs, or of the gradients of its outputs: there is one for each micro-batch, from
/// the first step on. Source: pytorch torch/distributed/pipelining/stage.py,
/// _prepare_forward_infra and _prepare_backward_infra @ v2.11.0.
Tensor StageRun::buffer_of_stages(std::int64_t micro_batches) const {
  return {"received", micro_batches * program_->boundary().bytes, Account::communication};
}

/// What a buffer holds is used where it is.
void StageRun::take_received() {
  drop(buffer_of_stages(1));
  make(program_->boundary());
}

/// The loss follows the last chunk's forward at once.
void StageRun::head_ahead() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const StepProgram::Head head = program().head(s_.model.runs.back().block);
  enter(unit, nullptr, Pass::forward);
  simulator_.run(head.before);
  simulator_.run(head.chunks.front().forward);
  leave(unit);
  simulator_.enter(Phase::loss);
  simulator_.run(head.chunks.front().loss);
}

void StageRun::head_back() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const StepProgram::Head head = program().head(s_.model.runs.back().block);
  simulator_.enter(Phase::backward);
  simulator_.run(head.chunks.front().loss_backward);
  enter(unit, nullptr, Pass::backward);
  head_backward(head.chunks.front(), &unit);
  leave(unit);
  release(unit);
  complete(unit);
}

void StageRun::forward_in_stages(int chunk) {
  if (!begins(chunk)) take_received();
  forward(chunk);
  if (ends(chunk)) head_ahead();
}

/// Its buffers are free again, and its output goes.
void StageRun::end_in_stages(int chunk) {
  if (!begins(chunk)) make(buffer_of_stages(1));
  if (ends(chunk)) return;
  make(buffer_of_stages(1));
  drop(program_->boundary());
}

/// A schedule of one stage holds the gradient that it sends until it has made the next one.
void StageRun::backward_in_stages(int chunk) {
  if (!ends(chunk)) take_received();
  backward(chunk);
  if (ends(chunk)) simulator_.run(program().head(s_.model.runs.back().block).after);
  end_in_stages(chunk);
  const bool holds = s_.schedule == Schedule::one_f_one_b && !std::exchange(sent_, true);
  if (!begins(chunk) && !holds) drop(program_->boundary());
}

/// The model's first chunk leaves all to the second part. Elsewhere the gradient of the input
/// stays beside its buffer until the next step. Source: the same file, backward_one_chunk and
/// clear_runtime_states; _backward.py, stage_backward_input.
void StageRun::input_backward(int chunk) {
  if (begins(chunk)) return;
  chunk_ = chunk;
  if (!ends(chunk)) take_received();
  simulator_.enter(Phase::backward);
  const std::vector<Turn>& turns = backward_of(chunk);
  if (ends(chunk)) {
    const StepProgram::Head head = program().head_in_two(s_.model.runs.back().block);
    simulator_.run(head.chunks.front().backward);
    simulator_.run(head.after);
  }
  for (const Turn& t : turns) {
    simulator_.run(program().block(Turn::Kind::backward_of_input, true, *t.block));
  }
}

/// stage_backward_weight goes over weights in the model's order.
void StageRun::weight_backward(int chunk) {
  if (begins(chunk)) {
    take_received();
    backward(chunk);
    return end_in_stages(chunk);
  }
  chunk_ = chunk;
  simulator_.enter(Phase::backward);
  const std::vector<Turn>& turns = backward_of(chunk);
  for (auto t = turns.rbegin(); t != turns.rend(); ++t) {
    simulator_.run(program().block(Turn::Kind::backward_of_weights, true, *t->block));
    begin_gradients();
    grow(*t->own);
  }
  if (ends(chunk)) {
    simulator_.run(program().head_in_two(s_.model.runs.back().block).weights);
    grow(windows(s_.part.head_unit()));
    drop(program_->targets(s_.part));
  }
  for (const Turn& t : turns) {
    simulator_.run(program().block(Turn::Kind::rest_of_backward, true, *t.block));
  }
  grown_[static_cast<std::size_t>(chunk)] = true;
  if (std::exchange(has_gradients_, false)) simulator_.run(with_gradients(&Script::drop));
  end_in_stages(chunk);
}

/// Gradients that are whole are those of a Holding from here on.
void StageRun::end_step_of_stages() {
  for (const UnitWindows& unit : windows_) drop(gradients(unit.growing));
  simulator_.enter(Phase::reduce);
  simulator_.enter(Phase::optimizer);
}

void StageRun::run_torch_stages() {
  const std::int64_t shown = shown_in_stages(s_);
  for (int chunk = 0; chunk < s_.chunks; ++chunk) {
    if (!begins(chunk)) make(buffer_of_stages(s_.micro_batches));
    if (!ends(chunk)) make(buffer_of_stages(s_.micro_batches));
    const bool leaves = s_.schedule == Schedule::zero_bubble && !begins(chunk);
    if (leaves) make(buffer_of_stages(s_.micro_batches - shown));
  }
  for (const TorchStageAction& action :
       torch_stage_actions(s_.schedule, s_.stage, s_.stages, s_.chunks, shown)) {
    switch (action.kind) {
      case TorchStageAction::Kind::forward:
        forward_in_stages(action.chunk);
        break;
      case TorchStageAction::Kind::backward:
        backward_in_stages(action.chunk);
        break;
      case TorchStageAction::Kind::backward_of_input:
        input_backward(action.chunk);
        break;
      case TorchStageAction::Kind::backward_of_weights:
        weight_backward(action.chunk);
        break;
    }
  }
  end_step_of_stages();
}

}  // namespace planwright::estimator
