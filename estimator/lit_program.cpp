#include "estimator/lit_program.h"

#include <algorithm>
#include <utility>

#include "estimator/lit_block.h"
#include "estimator/lit_head.h"

namespace planwright::estimator {

using namespace tape;

Tensor LitProgram::boundary() const {
  return {"hidden states", bytes_of(shape_.modules.stream) * shape_.tokens() * shape_.hidden};
}

Tensor LitProgram::ids() const { return token_ids(shape_, "input_ids"); }
Tensor LitProgram::targets(const ModelPart&) const { return token_ids(shape_, "targets"); }

Var LitProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  return LitBlock(graph, shape_, share).forward(x);
}

Script LitProgram::embedding() const { return Script().make(boundary()); }

/// What the model returned, which the loop still has.
Tensor LitProgram::returned() const {
  const std::int64_t elements = chunks() ? shape_.tokens() * shape_.vocab : 0;
  return {"logits", 4 * elements, Account::logits};
}

Script LitProgram::embedding_backward() const {
  const std::int64_t bytes = bytes_of(shape_.modules.weights) * shape_.vocab * shape_.hidden;
  const Tensor gradient{"d_embedding", bytes, Account::gradients};
  Script script;
  if (!shape_.lora.freezes()) script.make(gradient).drop(gradient);
  return script.drop(boundary()).drop(returned());
}

/// Of all sequences, in each chunk.
std::vector<std::int64_t> LitProgram::chunk_rows() const {
  if (!chunks()) return {shape_.tokens()};
  const std::int64_t most = shape_.modules.logit_rows;
  std::vector<std::int64_t> rows;
  for (std::int64_t left = shape_.seq; left > 0; left -= most) {
    rows.push_back(std::min(left, most) * shape_.batch);
  }
  return rows;
}

StepProgram::Head LitProgram::head(const BlockSpec& last) const {
  Head head;
  Chunk chunk;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(head.before);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var normed = LitBlock(graph, shape_, last).norm(std::exchange(x, {}));
  graph.record(chunk.forward);
  std::vector<Var> logits = lit_logits(graph, shape_, normed, chunk_rows());
  normed = {};
  graph.record(chunk.loss);
  std::vector<Var> wide;
  for (const Var& each : logits) wide.push_back(to(graph, each, DType::fp32));
  logits.clear();
  for (const Var& each : wide) {
    if (chunks()) Graph::keep(each);
  }
  Var loss = lit_loss(graph, shape_, std::move(wide));
  graph.record(chunk.backward);
  go_back(graph, std::move(loss), leaf);
  gradients.clear();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
