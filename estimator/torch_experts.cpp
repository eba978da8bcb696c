#include <utility>

#include "estimator/torch_block.h"

/// A torch block's experts. Sources: torchtitan models/moe/moe.py, models/moe/utils.py and
/// distributed/expert_parallel.py @ v0.2.2, with the products of experts in one kernel, and scores
/// after them. Every expert gets as many tokens.
namespace planwright::estimator {

using namespace tape;

namespace {

/// Rows that are put elsewhere, by `places` that are kept, of 8 bytes.
Var moved(Graph& graph, const Var& x, std::int64_t elements, std::int64_t places) {
  const Var kept = places > 0 ? graph.make("places", places, DType::fp64) : Var{};
  Var y = graph.make("index", elements, x.type);
  graph.join({x}, {&y}, [&graph, kept, back = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("index", back, type)};
  });
  return y;
}

/// Rows of a group of experts' tokens are a multiple of this, and may be as many more.
constexpr std::int64_t kAlignment = 8;

}  // namespace

/// Rows sorted by expert, with a row of zeros for the places that no token fills.
Var TorchBlock::experts(const Var& sorted) {
  const MoeSpec& m = *b_.moe;
  const std::int64_t h = s_.hidden, here = m.experts / s_.ep, rows = sorted.elements / h;
  const std::int64_t padded = rows + here * kAlignment;
  const auto product_of = [&](const Var& x, std::int64_t inputs, std::int64_t outputs) {
    const Matrix matrix{
        .weight = {here * inputs * outputs, m_.weights}, .compute = DType::bf16, .groups = here};
    return linear(graph_, x, matrix, padded);
  };
  Var tokens = moved(graph_, sorted, (rows + 1) * h, 0);
  tokens = moved(graph_, tokens, padded * h, padded);
  Var inner = activation(product_of(tokens, h, m.ffn));
  if (b_.mlp == MlpKind::gated) inner = mul(graph_, inner, product_of(tokens, h, m.ffn));
  tokens = {};
  tokens = product_of(std::exchange(inner, {}), m.ffn, h);
  tokens = moved(graph_, tokens, (rows + 1) * h, 0);
  return narrow(graph_, tokens, rows * h);
}

/// What the forward has by a name stays until it returns.
Var TorchBlock::routed(const Var& x) {
  const MoeSpec& m = *b_.moe;
  const std::int64_t h = s_.hidden, tokens = s_.tokens(), sent = tokens * m.top_k;
  const DType compute = m_.autocast ? s_.compute : m_.weights;
  const Var gate = linear(graph_, x, Matrix{{h * m.experts, m_.weights}, compute}, tokens);
  const Var scores = softmax(graph_, gate, DType::fp32);
  const Var chosen = scale(graph_, moved(graph_, scores, sent, sent));
  const Var sorted = moved(graph_, x, sent * h, 2 * sent);
  const auto exchanged = [&](const Var& rows) {
    if (s_.ep == 1) return rows;
    pass_on(graph_, s_, 1);
    return moved(graph_, rows, rows.elements, 0);
  };
  const Var back = exchanged(experts(exchanged(sorted)));
  const Var unsorted = moved(graph_, back, sent * h, 0);
  const Var wide = to(graph_, unsorted, DType::fp32);
  return to(graph_, batched_product(graph_, chosen, wide, tokens * h), x.type);
}

Var TorchBlock::moe(const Var& normed) {
  const std::int64_t width = b_.moe->shared_ffn;
  if (width == 0) return routed(normed);
  const Var out = product(inner(normed, width), width, s_.hidden);
  return add(graph_, out, routed(normed));
}

}  // namespace planwright::estimator
