#include "estimator/hf_program.h"

#include <utility>

#include "estimator/hf_block.h"
#include "estimator/hf_loss.h"

namespace planwright::estimator {

using namespace tape;

Tensor HfProgram::boundary() const {
  return {"hidden states", bytes_of(shape_.modules.stream) * shape_.tokens() * shape_.hidden};
}

Tensor HfProgram::ids() const { return token_ids(shape_, "input_ids"); }
Tensor HfProgram::targets() const { return token_ids(shape_, "labels"); }

Var HfProgram::given(Graph& graph, const char* name) const {
  return graph.given(name, shape_.tokens() * shape_.hidden, shape_.modules.stream, true);
}

Var HfProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  return HfBlock(graph, shape_, share).forward(x);
}

/// What the dropout of the embedding keeps: a byte for each element.
Tensor HfProgram::mask() const {
  const bool dropped = !shape_.rotary && shape_.hidden_dropout;
  return {"dropout mask", dropped ? shape_.tokens() * shape_.hidden : 0};
}

/// Learned positions are looked up once for all sequences, and added.
Script HfProgram::embedding() const {
  const Tensor tokens = boundary();
  Script script;
  if (shape_.rotary) return script.make(tokens);
  const Tensor positions{"positions", tokens.bytes / shape_.batch};
  const Tensor summed{"embedded", tokens.bytes};
  script.make(tokens).make(positions).make(summed).drop(positions).drop(tokens);
  return script.make(boundary()).make(mask()).drop(summed);
}

Script HfProgram::embedding_backward() const {
  const std::int64_t bytes = bytes_of(shape_.modules.weights) * shape_.vocab * shape_.hidden;
  const Tensor gradient{"d_embedding", bytes, Account::gradients};
  Script script;
  if (!shape_.lora.freezes()) script.make(gradient).drop(gradient);
  return script.drop(mask()).drop(boundary());
}

StepProgram::Head HfProgram::head(NormKind norm) const {
  Head head;
  Chunk chunk;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(head.before);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  const BlockSpec normed_by{.norm = norm};
  Var normed = HfBlock(graph, shape_, normed_by).norm(x, shape_.hidden);
  x = {};
  graph.record(chunk.forward);
  Var loss;
  if (shape_.loss == LossKernel::chunked) {
    loss = hf_chunked_loss(graph, shape_, normed);
  } else {
    HfLogits logits = hf_logits(graph, shape_, normed);
    graph.record(chunk.loss);
    loss = hf_loss(graph, shape_, std::move(logits));
  }
  normed = {};
  graph.record(chunk.backward);
  Var gradient = graph.make("d_loss", 1, DType::fp32);
  Graph::keep(graph.backward(std::move(loss), std::move(gradient), leaf));
  gradients.clear();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
