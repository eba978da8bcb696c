#pragma once

#include "estimator/tape_program.h"

namespace planwright::estimator {

/// A causal language model of Hugging Face's transformers under PyTorch, as the Trainer or a loop
/// runs it: estimator/hf_block and estimator/hf_loss, autograd, and torch's or transformers'
/// checkpoint around each block.
class HfProgram : public TapeProgram {
 public:
  using TapeProgram::TapeProgram;

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Script block(Turn turn, bool keeps_input, const BlockSpec& block) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override;
  bool makes_gradients() const override { return true; }

 private:
  Tensor mask() const;
  Tensor cache(const BlockSpec& block) const;
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  DType stream() const override { return shape_.modules.stream; }
};

}  // namespace planwright::estimator
