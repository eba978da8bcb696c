#include "estimator/tape_program.h"

#include <stdexcept>
#include <utility>

namespace planwright::estimator {

using namespace tape;

void TapeProgram::collect(Graph& graph, std::vector<Var>& gradients) const {
  graph.adopt = [this, &gradients](Var gradient) {
    if (!shape_.sums_gradients) gradients.push_back(std::move(gradient));
  };
}

Var TapeProgram::given(Graph& graph, const char* name) const {
  return graph.given(name, boundary().bytes / bytes_of(stream()), stream(), true);
}

void TapeProgram::go_back(Graph& graph, Var loss, const Var& leaf) {
  Var gradient = graph.make("d_loss", 1, DType::fp32);
  Graph::keep(graph.backward(std::move(loss), std::move(gradient), leaf));
}

/// `backward`: what the forward is kept for; null: nothing is.
Script TapeProgram::forward(Script* backward, bool keeps_input, const BlockSpec& share) const {
  Script script;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(script);
  graph.gradients = backward != nullptr;
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  if (backward == nullptr && keeps_input) Graph::keep(x);
  Var y = block_forward(graph, std::exchange(x, {}), share);
  Graph::keep(y);
  if (backward == nullptr) return script;
  graph.record(*backward);
  graph.reload();
  Graph::keep(graph.backward(std::move(y), given(graph, "dy"), leaf));
  gradients.clear();
  return script;
}

/// A function that is run again in backward holds its arguments until it returns; one that is run
/// to its end, its output and that one's gradient.
Script TapeProgram::rebuild_and_backward(const BlockSpec& share) const {
  Script script;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(script);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var dy = given(graph, "dy");
  Var y = block_forward(graph, x, share);
  if (shape_.activations.staying == Staying::to_next_rebuild) script.drop(boundary());
  if (shape_.activations.staying == Staying::while_referenced) x = {};
  if (makes_output_again(shape_)) {
    Graph::keep(graph.backward(y, dy, leaf));
  } else {
    y.storage.reset();
    Graph::keep(graph.backward(std::move(y), std::move(dy), leaf));
  }
  gradients.clear();
  return script;
}

/// Gradients of weights are added to those that are there, which a Holding is of, and each is there
/// until the next one is made.
Script TapeProgram::part_of_backward(Turn part, const BlockSpec& share) const {
  Script forward, first, second, rest;
  Graph graph;
  graph.in_two = true;
  Var added;
  graph.adopt = [&added](Var gradient) { added = std::move(gradient); };
  graph.record(forward);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var y = block_forward(graph, std::exchange(x, {}), share);
  Graph::keep(y);
  graph.record(first);
  Graph::keep(graph.backward(std::move(y), given(graph, "dy"), leaf));
  graph.release_behind_weights();
  graph.record(second);
  graph.backward_of_weights();
  added = {};
  graph.record(rest);
  graph.release_rest();
  return part == Turn::backward_of_input ? first : part == Turn::rest_of_backward ? rest : second;
}

Script TapeProgram::block(Turn turn, bool keeps_input, const BlockSpec& block) const {
  const BlockSpec share = tensor_share(block, static_cast<int>(shape_.tp));
  Script backward;
  switch (turn) {
    case Turn::forward_kept:
    case Turn::rebuild:
      return forward(&backward, keeps_input, share);
    case Turn::forward_dropped:
      return forward(nullptr, keeps_input, share);
    case Turn::backward:
      forward(&backward, keeps_input, share);
      return backward;
    case Turn::rebuild_and_backward:
      return rebuild_and_backward(share);
    case Turn::backward_of_input:
    case Turn::backward_of_weights:
    case Turn::rest_of_backward:
      return part_of_backward(turn, share);
  }
  throw std::logic_error("TapeProgram: unknown turn");
}

}  // namespace planwright::estimator
