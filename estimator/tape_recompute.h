#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "estimator/tape_graph.h"

/// Modules whose forward is run again in backward, so that what they save is not kept.
namespace planwright::estimator::tape {

/// Outputs of a module from its inputs.
using Module = std::function<std::vector<Var>(const std::vector<Var>& inputs)>;

/// Keeps the inputs, and runs the module again when the gradients of its outputs are there; if not
/// `wanted`, runs it as any other. Source:
/// Megatron-LM megatron/core/tensor_parallel/random.py, CheckpointFunction @ core_v0.14.0.
std::vector<Var> checkpointed(Graph& graph, bool wanted, const std::vector<Var>& inputs,
                              Module module);
/// The same of one input and one output.
Var checkpointed(Graph& graph, bool wanted, const Var& x,
                 const std::function<Var(const Var& x)>& module);

/// The same, but what others save of its outputs is given back as well: from the moment that those
/// have run until the gradient of what came of them is there. Then the module runs again, its new
/// outputs are copied to where the first ones were, and both are kept until its own backward.
/// Source: the same file, CheckpointWithoutOutput.
class WithoutOutput {
 public:
  /// Runs the module; if not `wanted`, once, and as any other.
  WithoutOutput(Graph& graph, bool wanted, const std::vector<Var>& inputs, Module module);

  std::vector<Var> take() { return wanted_ ? outputs_ : std::move(outputs_); }
  /// `after`: what came of the outputs, as a whole.
  void discard(Var& after);

 private:
  struct Again {
    std::vector<Var> leaves, outputs;
  };

  Graph& graph_;
  bool wanted_;
  Module module_;
  std::vector<Var> inputs_, outputs_;
  std::shared_ptr<Again> again_;
};

}  // namespace planwright::estimator::tape
