#include "estimator/runtime_program.h"

#include <stdexcept>

#include "estimator/block_script.h"
#include "estimator/step_script.h"

namespace planwright::estimator {

Tensor RuntimeProgram::boundary() const { return hidden_rows(shape_, "x"); }
Tensor RuntimeProgram::ids() const { return token_ids(shape_, "ids"); }
Tensor RuntimeProgram::targets(const ModelPart&) const { return token_ids(shape_, "targets"); }

Script RuntimeProgram::embedding() const { return embedding_forward(shape_); }

Script RuntimeProgram::embedding_backward() const {
  return estimator::embedding_backward(shape_).drop(hidden_rows(shape_, "dy"));
}

Script RuntimeProgram::block(Turn turn, bool keeps_input, const BlockSpec& block) const {
  const auto turned = [&] {
    switch (turn) {
      case Turn::forward_kept:
        return block_forward(shape_, block, Keep::state);
      case Turn::forward_dropped:
        return block_forward(shape_, block, Keep::nothing);
      case Turn::rebuild:
        return block_rebuild(shape_, block, true);
      case Turn::rebuild_and_backward:
        return block_rebuild(shape_, block, false).append(block_backward(shape_, block));
      case Turn::backward:
        return block_backward(shape_, block);
      case Turn::backward_of_input:
      case Turn::backward_of_weights:
      case Turn::rest_of_backward:
        break;
    }
    throw std::logic_error("RuntimeProgram: unknown turn");
  };
  Script script = turned();
  if (!keeps_input) script.drop(hidden_rows(shape_, "x"));
  return script;
}

StepProgram::Chunk RuntimeProgram::chunk(std::int64_t count, std::int64_t rows) const {
  return {count, head_product(shape_, rows),         loss(shape_, rows), {},
          {},    head_product_backward(shape_, rows)};
}

StepProgram::Head RuntimeProgram::head(const BlockSpec& last) const {
  const std::int64_t tokens = shape_.tokens();
  const LossChunks all = loss_chunks(shape_.loss, tokens);
  Head head{head_forward(shape_, last.norm), {}, head_backward(shape_, last.norm), {}};
  if (all.count > 1) head.chunks.push_back(chunk(all.count - 1, all.rows));
  head.chunks.push_back(chunk(1, tokens - (all.count - 1) * all.rows));
  return head;
}

}  // namespace planwright::estimator
