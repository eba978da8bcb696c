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
Tensor HfProgram::targets(const ModelPart&) const { return token_ids(shape_, "labels"); }

Var HfProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  return HfBlock(graph, shape_, share).forward(x);
}

/// Of the product that keys and values are views of. Source: transformers
/// models/gpt_bigcode/modeling_gpt_bigcode.py @ v4.48.1, whose checkpoint does not turn the cache
/// off; a quantised product is as wide as its input, which autocast's norm makes fp32.
Tensor HfProgram::cache(const BlockSpec& block) const {
  const std::int64_t width = (block.heads + 2 * block.kv_heads) * block.head_dim;
  const HfModules& m = shape_.modules;
  return {"cache", m.returns_cache ? bytes_of(m.stream) * shape_.tokens() * width : 0};
}

Script HfProgram::block(Turn turn, bool keeps_input, const BlockSpec& block) const {
  Script script = TapeProgram::block(turn, keeps_input, block);
  if (turn == Turn::forward_dropped) script.make(cache(block));
  return script;
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

namespace {

/// The same; what comes before it on the way back goes into `script`.
Var going_back_in(Graph& graph, const Var& x, Script& script) {
  Var y{.elements = x.elements, .type = x.type, .storage = x.storage};
  graph.join({x}, {&y}, [&graph, &script](std::vector<Var> gradients) {
    graph.record(script);
    return gradients;
  });
  return y;
}

}  // namespace

StepProgram::Head HfProgram::head(const BlockSpec& last) const {
  Head head;
  Chunk chunk;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(head.before);
  graph.copies_saved = shape_.activations.copies_head;
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var normed = HfBlock(graph, shape_, last).norm(x, shape_.hidden);
  x = {};
  graph.record(chunk.forward);
  graph.copies_saved = false;  // of the product
  Var loss;
  if (shape_.loss == LossKernel::chunked) {
    loss = hf_chunked_loss(graph, shape_, normed);
  } else {
    normed = going_back_in(graph, std::exchange(normed, {}), chunk.backward);
    HfLogits logits = hf_logits(graph, shape_, normed);
    logits.logits = logits.held = going_back_in(graph, logits.logits, chunk.product_backward);
    graph.record(chunk.loss);
    graph.copies_saved = shape_.activations.copies_head;
    loss = hf_loss(graph, shape_, std::move(logits));
  }
  for (std::int64_t i = 0; i < shape_.dropped_blocks; ++i) chunk.loss.drop(cache(last));
  normed = {};
  graph.record(shape_.loss == LossKernel::chunked ? chunk.backward : chunk.loss_backward);
  go_back(graph, std::move(loss), leaf);
  gradients.clear();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
