#include <utility>

#include "estimator/torch_block.h"

/// A torch block's experts. Sources: torchtitan models/moe/moe.py, models/moe/utils.py and
/// distributed/expert_parallel.py @ v0.2.2, with scores after the experts; models/moe.py @
/// f738a03bf, where rows are weighed before they are summed. Every expert gets as many tokens.
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

/// scatter_add: `rows` added up beside what is there, if anything is.
Var added_at(Graph& graph, const Var& there, const Var& rows, std::int64_t elements) {
  const Var zeros = there ? there : graph.make("zeros", elements, rows.type);
  Var y = graph.make("scatter_add", elements, rows.type);
  graph.join({zeros, rows}, {&y},
             [&graph, back = rows.elements, type = rows.type](std::vector<Var> g) {
               return std::vector{g[0], graph.make("gather", back, type)};
             });
  return y;
}

/// Rows of a group of experts' tokens are a multiple of this, and may be as many more.
constexpr std::int64_t kAlignment = 8;

}  // namespace

/// All experts' products in one kernel each. An expert's rows are a multiple of some.
Var TorchBlock::grouped(const Var& rows, std::int64_t padded) const {
  const MoeSpec& m = *b_.moe;
  const std::int64_t h = s_.hidden, here = m.experts / s_.ep;
  const auto product_of = [&](const Var& x, std::int64_t inputs, std::int64_t outputs) {
    const Matrix matrix{
        .weight = {here * inputs * outputs, m_.weights}, .compute = DType::bf16, .groups = here};
    return linear(graph_, x, matrix, padded);
  };
  Var inner = activation(product_of(rows, h, m.ffn));
  if (b_.mlp == MlpKind::gated) inner = mul(graph_, inner, product_of(rows, h, m.ffn));
  return product_of(std::exchange(inner, {}), m.ffn, h);
}

/// Where there is no kernel for all of them: below compute capability 9.0. Source: torchtitan
/// models/deepseek_v3/model/args.py @ v0.2.2.
Var TorchBlock::one_by_one(const Var& rows) {
  const MoeSpec& m = *b_.moe;
  const std::int64_t h = s_.hidden, here = m.experts / s_.ep;
  const auto product_of = [&](const Var& x, std::int64_t inputs, std::int64_t outputs) {
    count_product(Use::something);
    const Matrix matrix{.weight = {inputs * outputs, m_.weights}, .compute = x.type};
    return linear(graph_, x, matrix, x.elements / inputs);
  };
  std::vector<Var> results;
  const std::vector<std::int64_t> sizes(static_cast<std::size_t>(here), rows.elements / here);
  for (const Var& own : split(graph_, rows, sizes)) {
    Var inner = activation(product_of(own, h, m.ffn));
    if (b_.mlp == MlpKind::gated) inner = mul(graph_, inner, product_of(own, h, m.ffn));
    results.push_back(product_of(std::exchange(inner, {}), m.ffn, h));
  }
  const Var all = cat(graph_, std::exchange(results, {}));
  return cat(graph_, {all});  // beside rows of zeros for what is padded
}

/// Rows sorted by expert, with a row of zeros for the places that no token fills.
Var TorchBlock::experts(const Var& sorted) {
  const std::int64_t h = s_.hidden, rows = sorted.elements / h;
  const std::int64_t padded = rows + b_.moe->experts / s_.ep * kAlignment;
  const bool groups = s_.capability == 0 || s_.capability >= 9;
  Var tokens = moved(graph_, sorted, (rows + 1) * h, 0);
  tokens = moved(graph_, tokens, padded * h, padded);
  tokens =
      groups ? grouped(std::exchange(tokens, {}), padded) : one_by_one(std::exchange(tokens, {}));
  tokens = moved(graph_, tokens, (rows + 1) * h, 0);
  return narrow(graph_, tokens, rows * h);
}

/// Of the experts that each token goes to.
Var TorchBlock::scores(const Var& x) {
  const MoeSpec& m = *b_.moe;
  const std::int64_t sent = s_.tokens() * m.top_k;
  const DType compute = m_.autocast ? s_.compute : m_.weights;
  const Var input = to(graph_, x, compute);
  count_product(Use::something);
  const Matrix gate{{s_.hidden * m.experts, m_.weights}, compute};
  const Var all = softmax(graph_, linear(graph_, input, gate, s_.tokens()), DType::fp32);
  return scale(graph_, moved(graph_, all, sent, sent));
}

Var TorchBlock::exchanged(const Var& rows) const {
  if (s_.ep == 1) return rows;
  if (m_.keeps_exchanged) pass_on(graph_, s_, 1);
  return moved(graph_, rows, rows.elements, 0);
}

/// What the forward has by a name stays until it returns.
Var TorchBlock::moe(const Var& normed) {
  const MoeSpec& m = *b_.moe;
  const std::int64_t h = s_.hidden, tokens = s_.tokens(), sent = tokens * m.top_k;
  const Var chosen = scores(normed);
  const Var sorted = moved(graph_, normed, sent * h, 2 * sent);
  Var rows = exchanged(experts(exchanged(sorted)));
  if (m_.weighed_rows) {
    const Var weighed = mul(graph_, to(graph_, std::exchange(rows, {}), DType::fp32), chosen);
    rows = to(graph_, weighed, normed.type);
  }
  Var shared;
  if (m.shared_ffn > 0) {
    shared = product(inner(normed, m.shared_ffn), m.shared_ffn, h, Use::nothing);
  }
  if (m_.weighed_rows) return added_at(graph_, shared, rows, tokens * h);
  const Var unsorted = moved(graph_, rows, sent * h, 0);
  const Var wide = to(graph_, unsorted, DType::fp32);
  const Var sums = to(graph_, batched_product(graph_, chosen, wide, tokens * h), normed.type);
  return shared ? add(graph_, shared, sums) : sums;
}

}  // namespace planwright::estimator
