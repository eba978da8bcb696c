#pragma once

#include "estimator/tape_program.h"

namespace planwright::estimator {

/// A decoder of litgpt's under PyTorch, in a loop like its own: estimator/lit_block, logits chunk
/// by chunk, which a wrapper hands to the loop in fp32 and the loop keeps until it has others, and
/// torch's checkpoint around each block. Sources: litgpt/finetune/lora.py, pretrain.py and
/// utils.py, chunked_cross_entropy @ v0.5.9; Lightning-AI/pytorch-lightning
/// src/lightning/fabric/plugins/precision/half.py @ 2.1.0.
class LitProgram : public TapeProgram {
 public:
  using TapeProgram::TapeProgram;

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override;
  bool makes_gradients() const override { return true; }

 private:
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  DType stream() const override { return shape_.modules.stream; }
  bool chunks() const { return shape_.modules.logit_rows > 0; }
  Tensor returned() const;
  std::vector<std::int64_t> chunk_rows() const;
};

}  // namespace planwright::estimator
