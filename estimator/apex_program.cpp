#include "estimator/apex_program.h"

#include <utility>

#include "estimator/apex_block.h"
#include "estimator/tape_layers.h"

namespace planwright::estimator {

using namespace tape;

Tensor ApexProgram::boundary() const { return hidden_rows(shape_, "hidden states"); }

/// Tokens and positions; labels of 8 bytes and a loss mask of 4. Source:
/// bigscience-workshop/Megatron-DeepSpeed pretrain_gpt.py, get_batch_pipe @ 8387ae1.
Tensor ApexProgram::ids() const { return {"tokens", 16 * shape_.tokens()}; }
Tensor ApexProgram::targets(const ModelPart&) const { return {"labels", 12 * shape_.tokens()}; }

Tensor ApexProgram::part_of_boundary(int count) const {
  return {"slot", count * (boundary().bytes / shape_.tp)};
}

/// Received and sent, of a stage that has neighbours.
Tensor ApexProgram::kept(const ModelPart& part) const {
  return part_of_boundary((part.first ? 0 : 1) + (part.last ? 0 : 1));
}

Tensor ApexProgram::logits() const {
  return {"logits", 4 * shape_.tokens() * shape_.vocab, Account::logits};
}

/// Buffers to receive in, and the logits of the two slots that a last stage has.
Script ApexProgram::resident(const ModelPart& part) const {
  constexpr int kSlots = 2;
  Script script;
  script.make(part_of_boundary((part.first ? 0 : 1) + (part.last ? 0 : 1)));
  for (int i = 0; i < kSlots && part.last; ++i) script.make(logits());
  return script;
}

Var ApexProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  return ApexBlock(graph, shape_).forward(x, share);
}

Tensor ApexProgram::mask() const {
  return {"dropout mask", shape_.hidden_dropout ? shape_.tokens() * shape_.hidden : 0};
}

/// Words and positions are added, and turned to [seq, batch, hidden].
Script ApexProgram::embedding() const {
  const Tensor rows{"embedded", boundary().bytes};
  Script script;
  script.make(rows);
  if (!shape_.rotary) script.make(rows).make(rows).drop(rows).drop(rows);
  script.make(mask());
  if (shape_.hidden_dropout) script.make(rows).drop(rows);
  return script.make(boundary()).drop(rows);
}

Script ApexProgram::embedding_backward() const {
  const Tensor gradient{"d_embedding", shape_.e() * shape_.vocab * shape_.hidden,
                        Account::gradients};
  Script script;
  script.make(boundary()).drop(boundary()).drop(mask());
  return script.make(gradient).drop(gradient).drop(boundary());
}

/// Softmax and gradient are written over the fp32 logits, which stay in their slot.
StepProgram::Head ApexProgram::head(const BlockSpec& last) const {
  Head head;
  Chunk chunk;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(head.before);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var turned = copy(graph, std::exchange(x, {}));
  Var normed = ApexBlock(graph, shape_).norm(std::exchange(turned, {}), last.norm);
  graph.record(chunk.forward);
  const Weight weight{shape_.vocab * shape_.hidden, shape_.compute, true};
  Var narrow = linear(graph, std::exchange(normed, {}),
                      Matrix{weight, shape_.compute, false, Account::logits}, shape_.tokens());
  graph.record(chunk.loss);
  chunk.loss.make(logits());
  Var loss = graph.make("loss", shape_.tokens(), DType::fp32);
  graph.join({narrow}, {&loss},
             [&graph, elements = narrow.elements, type = narrow.type](const std::vector<Var>&) {
               return std::vector{graph.make("d_logits", elements, type, Account::logits)};
             });
  narrow = {};
  chunk.loss.drop(logits());
  graph.record(chunk.backward);
  go_back(graph, std::move(loss), leaf);
  gradients.clear();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
