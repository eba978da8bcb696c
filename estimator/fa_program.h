#pragma once

#include "estimator/tape_program.h"
#include "estimator/te_ops.h"

namespace planwright::estimator {

/// A decoder of gated blocks with RMSNorms and rotary positions out of estimator/fa_ops, whose
/// micro-batches' gradients of weights are made in the type of the weights. Source:
/// huggingface/nanotron src/nanotron/models/llama.py @ 67c5ebb (branch nouamane/bench2), 2411b02;
/// the files of other parts are named with them.
class FaProgram : public TapeProgram {
 public:
  explicit FaProgram(const StepShape& shape);

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Head head(const BlockSpec& last) const override;
  bool makes_gradients() const override { return true; }
  Script resident(const ModelPart& part) const override;

 private:
  Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const override;
  Var norm(Graph& graph, const Var& x) const;
  Var attention(Graph& graph, const Var& x, const BlockSpec& share) const;
  Var mlp(Graph& graph, const Var& x, const BlockSpec& share) const;
  Var column(Graph& graph, const Var& x, std::int64_t outputs, Account made_for) const;
  Tensor whole_rows(const char* name) const;
  Tensor embedding_mask() const;

  tape::TensorRanks ranks_;
  std::int64_t rows_ = 0;   ///< tokens of this rank between the products
  std::int64_t whole_ = 0;  ///< tokens in them
};

}  // namespace planwright::estimator
