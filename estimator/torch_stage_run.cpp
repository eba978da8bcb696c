#include "estimator/stage_run.h"
#include "estimator/torch_stages.h"

namespace planwright::estimator {

/// See torch_buffers.
Tensor StageRun::buffer_of_stages(std::int64_t count) const {
  return {"received", count * program_->boundary().bytes, Account::communication};
}

/// What a buffer holds is used where it is.
void StageRun::take_received() {
  drop(buffer_of_stages(1));
  make(program_->boundary());
}

/// The loss follows the last chunk's forward at once.
void StageRun::head_ahead() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const Head& head = program().head(s_.model.runs.back().block);
  enter(unit, nullptr, Pass::forward);
  simulator_.run(head.before);
  simulator_.run(head.chunks.front().forward);
  leave(unit);
  simulator_.enter(Phase::loss);
  simulator_.run(head.chunks.front().loss);
}

void StageRun::head_back() {
  const UnitWindows& unit = windows(s_.part.head_unit());
  const Head& head = program().head(s_.model.runs.back().block);
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
/// stays beside its buffer until the next step. Source: pytorch torch/distributed/pipelining/
/// stage.py, backward_one_chunk @ v2.11.0.
void StageRun::input_backward(int chunk) {
  if (begins(chunk)) return;
  chunk_ = chunk;
  if (!ends(chunk)) take_received();
  simulator_.enter(Phase::backward);
  const std::vector<Turn>& turns = backward_of(chunk);
  static const Head kNone;
  const Head& head = ends(chunk) ? program().head_in_two(s_.model.runs.back().block) : kNone;
  if (ends(chunk)) simulator_.run(head.chunks.front().backward);
  for (const Turn& t : turns) {
    simulator_.run(program().block(Turn::Kind::backward_of_input, true, *t.block));
  }
  simulator_.run(head.after);
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
    drop(tensors().targets(s_.part));
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

/// Buffers of micro-batches that are not shown are no part of it. A gradient that is left beside
/// its buffer is there from its backward on.
void StageRun::run_torch_stages() {
  const std::int64_t shown =
      torch_shown(s_.schedule, s_.stage, s_.stages, s_.chunks, s_.micro_batches);
  const Schedule in_buffers = s_.chunks > 1 ? Schedule::interleaved : s_.schedule;
  const int buffers = torch_buffers(in_buffers, s_.stage, s_.stages, s_.chunks);
  make(buffer_of_stages(buffers * shown));
  if (s_.schedule == Schedule::gpipe) {
    simulator_.repeat(shown, [&] { forward_in_stages(0); });
    backward_in_stages(0);
    simulator_.repeat(shown - 1, [&] { backward_in_stages(0); });
    return end_step_of_stages();
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
