#pragma once

#include "estimator/tape_program.h"

namespace planwright::estimator {

/// A stage of blocks of estimator/apex_block in a pipeline engine that keeps slots for its
/// micro-batches: in each the tensor that was received, and what was sent on, which tensor ranks
/// have a part of each; and logits, until the slot is taken again. Blocks that are run again hold
/// what a reentrant checkpoint holds. Source: microsoft/DeepSpeed deepspeed/runtime/pipe/engine.py,
/// pipe/schedule.py, activation_checkpointing/checkpointing.py @ v0.5.10.
class ApexProgram : public TapeProgram {
 public:
  using TapeProgram::TapeProgram;

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Tensor kept(const ModelPart& part) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override;
  Script resident(const ModelPart& part) const override;
  bool makes_gradients() const override { return true; }

 private:
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  Tensor part_of_boundary(int count) const;
  Tensor logits() const;
  Tensor mask() const;
};

}  // namespace planwright::estimator
