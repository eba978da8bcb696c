#include "estimator/fa_program.h"

#include <utility>

#include "estimator/fa_ops.h"
#include "estimator/tape_layers.h"

namespace planwright::estimator {

using namespace tape;

FaProgram::FaProgram(const StepShape& shape)
    : TapeProgram(shape),
      ranks_{shape.tp, shape.sp},
      rows_(shape.local_tokens()),
      whole_(shape.tokens()) {}

Tensor FaProgram::boundary() const { return hidden_rows(shape_, "hidden states"); }

/// Token ids of 8 bytes, or labels, and a mask of 1. Source: data/clm_collator.py.
Tensor FaProgram::ids() const { return {"input_ids", (8 + 1) * whole_}; }
Tensor FaProgram::targets(const ModelPart&) const { return {"label_ids", (8 + 1) * whole_}; }

Var FaProgram::norm(Graph& graph, const Var& x) const {
  return fa_norm(graph, x, rows_, shape_.hidden);
}

Var FaProgram::column(Graph& graph, const Var& x, std::int64_t outputs, Account made_for) const {
  return fa_column_linear(graph, x, rows_,
                          {outputs * shape_.hidden, ranks_, shape_.keeps_gathered, made_for});
}

/// CausalSelfAttention. Positions turn queries and keys where they lie: queries in the tensor that
/// all three were brought into their order in, keys in one that has keys and values.
Var FaProgram::attention(Graph& graph, const Var& x, const BlockSpec& share) const {
  const std::int64_t queries = whole_ * share.heads * share.head_dim;
  const std::int64_t keys = whole_ * share.kv_heads * share.head_dim;
  const std::int64_t width = (share.heads + 2 * share.kv_heads) * share.head_dim;
  Var mixed = column(graph, x, width, Account::activations);
  const bool grouped = share.heads > share.kv_heads;
  if (!grouped) mixed = fa_reordered(graph, mixed);
  std::vector<Var> parts = split(graph, mixed, {queries, keys, keys});
  mixed = {};
  for (Var& part : parts) {
    if (grouped) part = fa_reordered(graph, part);
  }
  Var pair = cat(graph, {parts[1], parts[2]});
  parts.resize(1);
  pair = fa_reordered(graph, pair);
  const std::vector<Var> turned = split(graph, pair, {keys, keys});
  pair = {};
  const Heads heads{shape_.batch, shape_.seq, share.heads, share.kv_heads, share.head_dim, true};
  const Var out = flash_attention(graph, parts[0], turned[0], turned[1], heads);
  return fa_row_linear(graph, out, whole_,
                       {share.heads * share.head_dim * shape_.hidden, ranks_, false},
                       shape_.batch > 1);
}

Var FaProgram::mlp(Graph& graph, const Var& x, const BlockSpec& share) const {
  std::vector<Var> halves = split(graph, column(graph, x, 2 * share.ffn, Account::activations),
                                  {whole_ * share.ffn, whole_ * share.ffn});
  const Var gated = mul(graph, silu(graph, halves[0]), halves[1]);
  halves.clear();
  return fa_row_linear(graph, gated, whole_, {share.ffn * shape_.hidden, ranks_, false}, false);
}

/// LlamaDecoderLayer.
Var FaProgram::block_forward(Graph& graph, const Var& x, const BlockSpec& share) const {
  const Var x1 = add(graph, attention(graph, norm(graph, x), share), x);
  return add(graph, mlp(graph, norm(graph, x1), share), x1);
}

Tensor FaProgram::whole_rows(const char* name) const {
  return {name, shape_.e() * whole_ * shape_.hidden};
}

Tensor FaProgram::embedding_mask() const { return {"embedding mask", shape_.tp > 1 ? whole_ : 0}; }

/// Masked where the rank has no row of the matrix, and summed over the ranks. Source:
/// parallel/tensor_parallel/nn.py, TensorParallelEmbedding.
Script FaProgram::embedding() const {
  Script script;
  if (shape_.tp == 1) return script.make(boundary());
  const Tensor found = whole_rows("embedded"), masked = whole_rows("masked");
  script.make(embedding_mask()).make(found).make(masked).drop(found);
  return script.make(boundary()).drop(masked);
}

Script FaProgram::embedding_backward() const {
  const Tensor gradient{"d_embedding", shape_.e() * shape_.vocab * shape_.hidden,
                        Account::gradients};
  const Tensor gathered = ranks_.gathers() ? whole_rows("gathered") : Tensor{"gathered"};
  const Tensor masked = shape_.tp > 1 ? whole_rows("d_masked") : Tensor{"d_masked"};
  Script script;
  script.make(gathered).make(masked).drop(gathered).make(gradient).drop(gradient);
  return script.drop(masked).drop(embedding_mask()).drop(boundary());
}

/// Buffers of the process, which are never given back: of rows that are gathered for a product, and
/// of gradients that are gathered for one. Source: parallel/utils.py, MemoryBuffer.
Script FaProgram::resident(const ModelPart& part) const {
  Script script;
  if (!ranks_.gathers()) return script;
  const auto buffer = [&](const char* name) {
    return Tensor{name, whole_rows(name).bytes, Account::communication};
  };
  if (!shape_.keeps_gathered) script.make(buffer("allgather"));
  if (part.layers > 0) script.make(buffer("allgather2"));
  return script;
}

/// LlamaModel's final norm, head and cast, and Loss. The fp32 logits are a local variable of the
/// model's forward.
StepProgram::Head FaProgram::head(const BlockSpec&) const {
  Head head;
  Chunk chunk;
  Graph graph;
  std::vector<Var> gradients;
  collect(graph, gradients);
  graph.record(head.before);
  Var x = given(graph, "x");
  const Var leaf{.elements = x.elements, .maker = x.maker};
  Var normed = norm(graph, x);
  x = {};
  graph.record(chunk.forward);
  Var logits = column(graph, normed, shape_.vocab, Account::logits);
  normed = {};
  graph.account = Account::logits;
  logits = to(graph, logits, DType::fp32);
  graph.record(chunk.loss);
  Var loss = fa_cross_entropy(graph, logits);
  logits = {};
  graph.record(chunk.backward);
  go_back(graph, std::move(loss), leaf);
  gradients.clear();
  head.chunks = {chunk};
  return head;
}

}  // namespace planwright::estimator
