#pragma once

#include "estimator/spec/model_spec.h"
#include "estimator/step_shape.h"
#include "estimator/tape_layers.h"

/// A decoder block out of torch's own modules, spread over tensor ranks as DTensors. Source:
/// torchtitan models/llama3/model/model.py and models/qwen3/model/model.py @ v0.2.2; attention is
/// the flash kernel, on devices whose torch prefers cuDNN's as well.
namespace planwright::estimator {

/// A collective's result is laid out along its first dimension, which is the batch, and copied
/// where the sequence is cut. Source: pytorch torch/distributed/_functional_collectives.py,
/// all_gather_tensor, reduce_scatter_tensor, all_reduce @ v2.11.0.
class TensorGroup {
 public:
  TensorGroup(tape::Graph& graph, const StepShape& shape) : graph_(graph), s_(shape) {}

  /// Every rank's rows of what each has its own of.
  tape::Var gather(const tape::Var& local) const;
  /// The sum over ranks, of which each has its own rows. `saves`: is one of those results that
  /// saves_ops is about.
  tape::Var reduce(const tape::Var& partial, bool saves) const;
  /// The gradient of what was reduced.
  tape::Var reduce_backward(const tape::Var& gradient) const;

 private:
  tape::Var gathered(const tape::Var& local) const;
  tape::Var summed(const tape::Var& partial, bool saves) const;

  tape::Graph& graph_;
  const StepShape& s_;
};

/// With saves_ops, what is made without gradients leaves some results to what is made with them.
void pass_on(tape::Graph& graph, const StepShape& shape, int results);

class TorchBlock {
 public:
  TorchBlock(tape::Graph& graph, const StepShape& shape, const BlockSpec& block)
      : graph_(graph), s_(shape), m_(shape.modules), b_(block), group_(graph, shape) {}

  tape::Var forward(const tape::Var& x);
  /// Over groups of `width` of x.
  tape::Var norm(const tape::Var& x, std::int64_t width) const;

 private:
  using Var = tape::Var;

  /// What the backward asks of a product's result.
  enum class Use { something, nothing };

  Var product(const Var& x, std::int64_t inputs, std::int64_t outputs, Use use = Use::something);
  void count_product(Use use);
  Var attention(const Var& normed);
  Var latent_attention(const Var& normed);
  std::vector<Var> looked_up(std::int64_t width) const;
  Var turned_pairs(const Var& x, const std::vector<Var>& table) const;
  void rotate(Var& q, Var& k) const;
  Var attend(const Var& q, const Var& k, const Var& v) const;
  Var feed_forward(const Var& normed);
  Var inner(const Var& x, std::int64_t width);
  Var moe(const Var& normed);
  Var scores(const Var& x);
  Var exchanged(const Var& rows) const;
  Var experts(const Var& sorted);
  Var grouped(const Var& rows, std::int64_t padded) const;
  Var one_by_one(const Var& rows);
  Var activation(const Var& x) const;

  tape::Graph& graph_;
  const StepShape& s_;
  const HfModules& m_;
  const BlockSpec& b_;
  TensorGroup group_;
  int products_ = 0;
};

}  // namespace planwright::estimator
