#include "estimator/torch_program.h"

#include <utility>

#include "estimator/torch_block.h"

namespace planwright::estimator {

using namespace tape;

namespace {

/// Of logits of which each rank has those of a part of the vocabulary. Source: pytorch
/// torch/distributed/tensor/parallel/loss.py @ v2.11.0.
Var spread_cross_entropy(Graph& graph, const Var& logits) {
  Var logs;
  {
    const Var shifted = graph.like("sub", logits);
    graph.like("exp", logits);
    logs = graph.like("log_softmax", logits);
  }
  graph.join({logits}, {&logs}, [](std::vector<Var> g) { return g; });
  Var loss = graph.make("nll_loss", 1, logits.type);
  graph.join({logs}, {&loss}, [&graph, kept = saved(logs)](const std::vector<Var>&) {
    const Var zeros = graph.like("nll_loss", kept);
    Var powers = graph.like("exp", kept);
    const Var sum = graph.like("add", kept);
    powers = {};
    return std::vector{graph.like("mul", kept)};
  });
  return loss;
}

/// cross_entropy_loss. Compiled it is a kernel forwards, which leaves sums of each row, and one
/// backwards, both of the logits as they are. Source: pytorch torch/_inductor/ir.py, which has
/// element-wise operators in the kernels that use them @ v2.11.0.
Var loss_of(Graph& graph, const StepShape& s, const Var& logits) {
  if (s.modules.compiled_loss && s.tp == 1) {
    return flash_cross_entropy(graph, logits, s.tokens());
  }
  const Var wide = to(graph, logits, DType::fp32);
  return s.tp > 1 ? spread_cross_entropy(graph, wide) : cross_entropy(graph, wide);
}

}  // namespace

Tensor TorchProgram::boundary() const {
  return {"hidden states", bytes_of(shape_.modules.stream) * shape_.local_tokens() * shape_.hidden};
}

Var TorchProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  return TorchBlock(graph, shape_, share).forward(x);
}

/// Rows that other ranks have are looked up as well, as zeros.
Script TorchProgram::embedding() const {
  Script script;
  Graph graph;
  graph.record(script);
  graph.gradients = false;
  const Var rows = graph.make("embedding", shape_.tokens() * shape_.hidden, shape_.modules.stream);
  Graph::keep(TensorGroup(graph, shape_).reduce(rows, false));
  return script;
}

Script TorchProgram::embedding_backward() const {
  Script script;
  Graph graph;
  graph.record(script);
  Var rows = given(graph, "d_rows");
  rows = TensorGroup(graph, shape_).reduce_backward(rows);
  graph.make("d_embedding", shape_.vocab * shape_.hidden, shape_.modules.weights,
             Account::gradients);
  return script;
}

Var TorchProgram::logits(Graph& graph, const Var& normed) const {
  const HfModules& m = shape_.modules;
  const Weight weight{shape_.vocab * shape_.hidden, m.weights};
  const Matrix head{weight, m.autocast ? shape_.compute : m.weights, false, Account::logits};
  return linear(graph, TensorGroup(graph, shape_).gather(normed), head, shape_.tokens());
}

Tensor TorchProgram::held_logits() const {
  return {"held logits", bytes_of(DType::fp32) * shape_.tokens() * shape_.vocab, Account::logits};
}

Script TorchProgram::resident(const ModelPart& part) const {
  Script script;
  const bool holds = part.last && shape_.modules.held_logits && !shape_.torch_stages;
  return holds ? script.make(held_logits()) : script;
}

/// The model's own cast, whose result takes the place of the last step's in the loop that called
/// it. Source: torchtitan train.py and torchtrain/models/llama/model.py @ 83c879f18.
void TorchProgram::hold(Graph& graph, Script& script, Var& logits) const {
  Var wide = to(graph, logits, DType::fp32);
  logits = std::move(wide);
  Graph::keep(logits);
  script.drop(held_logits());
}

/// In stages the logits are a stage's output, which is held until its backward has ended.
StepProgram::Head TorchProgram::head(const BlockSpec& last, bool in_two) const {
  Head head;
  Chunk chunk;
  Graph graph;
  graph.in_two = in_two;
  std::vector<Var> gradients;
  collect(graph, gradients);
  if (in_two) graph.adopt = [](const Var&) {};
  graph.record(head.before);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var normed = TorchBlock(graph, shape_, last).norm(std::exchange(x, {}), shape_.hidden);
  graph.record(chunk.forward);
  Var pred = logits(graph, std::exchange(normed, {}));
  graph.account = Account::logits;
  if (shape_.modules.held_logits && !shape_.torch_stages) hold(graph, chunk.forward, pred);
  graph.record(chunk.loss);
  Var loss = loss_of(graph, shape_, pred);
  if (!shape_.torch_stages) pred = {};
  graph.record(chunk.backward);
  go_back(graph, std::move(loss), leaf);
  gradients.clear();
  graph.record(head.after);
  graph.release_behind_weights();
  pred = {};
  graph.record(head.weights);
  graph.backward_of_weights();
  graph.release_rest();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
