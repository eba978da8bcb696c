#pragma once

#include <vector>

#include "estimator/step_program.h"
#include "estimator/tape_graph.h"

namespace planwright::estimator {

/// A step program whose blocks are written as their forward on the tape: every turn follows from
/// it. Gradients of weights are there until the turn that makes them ends, or go at once where they
/// are added to others (StepShape::sums_gradients).
class TapeProgram : public StepProgram {
 public:
  explicit TapeProgram(const StepShape& shape) : shape_(shape) {}

  Script block(Turn turn, bool keeps_input, const BlockSpec& block) const override;

 protected:
  using Graph = tape::Graph;
  using Var = tape::Var;

  virtual Var block_forward(Graph& graph, const Var& x, const BlockSpec& share) const = 0;
  /// The type of what goes from block to block.
  virtual DType stream() const { return shape_.compute; }
  /// A tensor like a block's input.
  Var given(Graph& graph, const char* name) const;
  /// Where the graph's gradients of weights are until they go.
  void collect(Graph& graph, std::vector<Var>& gradients) const;
  /// From a head's loss to the gradient of `leaf`, its input, which is left to another script.
  static void go_back(Graph& graph, Var loss, const Var& leaf);

  StepShape shape_;

 private:
  Script forward(Script* backward, bool keeps_input, const BlockSpec& share) const;
  Script rebuild_and_backward(const BlockSpec& share) const;
  /// A backward in two: what is asked of it.
  Script part_of_backward(Turn part, const BlockSpec& share) const;
};

}  // namespace planwright::estimator
