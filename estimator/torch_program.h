#pragma once

#include "estimator/tape_program.h"

namespace planwright::estimator {

/// A model out of torch's own modules under autograd, with torch's non-reentrant checkpoint around
/// each block: estimator/torch_block, and a loss whose caller lets go of the logits before
/// backward, or holds them. Source: torchtitan train.py and components/loss.py @ v0.2.2.
class TorchProgram : public TapeProgram {
 public:
  using TapeProgram::TapeProgram;

  Tensor boundary() const override;
  Tensor ids() const override { return token_ids(shape_, "inputs"); }
  Tensor targets(const ModelPart&) const override { return token_ids(shape_, "labels"); }
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override { return head(last, false); }
  Head head_in_two(const BlockSpec& last) const override { return head(last, true); }
  Script resident(const ModelPart& part) const override;
  bool makes_gradients() const override { return true; }

 private:
  Head head(const BlockSpec& last, bool in_two) const;
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  DType stream() const override { return shape_.modules.stream; }
  Var logits(Graph& graph, const Var& normed) const;
  Tensor held_logits() const;
  void hold(Graph& graph, Script& script, Var& logits) const;
};

}  // namespace planwright::estimator
