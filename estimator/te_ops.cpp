#include "estimator/te_ops.h"

#include <numeric>
#include <utility>

namespace planwright::estimator::tape {
namespace {

/// Mean and deviation, or the latter alone, of each row.
Var statistics(Graph& graph, const Norm& norm) {
  const bool mean = norm.kind != NormKind::rms_norm;
  return graph.make("norm statistics", (mean ? 2 : 1) * norm.rows, DType::fp32);
}

Var gathered(Graph& graph, const Var& local, const TensorRanks& ranks) {
  return graph.make("gathered", ranks.whole(local.elements), local.type, Account::communication);
}

}  // namespace

Var te_norm_linear(Graph& graph, const Var& x, const Norm& norm, std::int64_t outputs,
                   const TensorRanks& ranks) {
  Var normed = graph.like("norm", x);
  const Var stats = statistics(graph, norm);
  const std::int64_t rows = ranks.whole(norm.rows);
  const Var whole = ranks.gathers() ? gathered(graph, normed, ranks) : Var{};
  Var y = graph.make("product", rows * outputs, x.type);
  graph.join({x}, {&y},
             [&graph, ranks, kept = saved(x), normed = saved(normed),
              stats](const std::vector<Var>&) mutable {
               Var again = ranks.gathers() ? gathered(graph, normed, ranks) : Var{};
               Var d_whole = graph.make("d_input", ranks.whole(kept.elements), kept.type);
               Var d_normed = ranks.gathers() ? graph.like("scattered", kept) : d_whole;
               // The weight's gradient is taken here; then these are cleared.
               again = {};
               normed = {};
               return std::vector{graph.like("d_norm", kept)};
             });
  return y;
}

Var te_row_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
                  const TensorRanks& ranks) {
  Var y = graph.make("product", rows * outputs, x.type);
  if (ranks.gathers()) y = graph.make("scattered", y.elements / ranks.count, x.type);
  graph.join({x}, {&y}, [&graph, ranks, kept = saved(x)](std::vector<Var> g) {
    const Var whole = ranks.gathers() ? gathered(graph, g[0], ranks) : Var{};
    return std::vector{graph.like("d_input", kept)};
  });
  return y;
}

std::vector<Var> te_split(Graph& graph, const Var& x, const std::vector<std::int64_t>& elements) {
  std::vector<Var> views;
  std::vector<Var*> outputs;
  for (const std::int64_t each : elements) {
    views.push_back({.elements = each, .type = x.type, .storage = x.storage});
  }
  for (Var& view : views) outputs.push_back(&view);
  graph.join({x}, outputs, [&graph, total = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("joined", total, type)};
  });
  return views;
}

Var te_copy(Graph& graph, const Var& x) {
  Var y = graph.like("copy", x);
  graph.join({x}, {&y}, [](std::vector<Var> g) { return g; });
  return y;
}

Var te_rotate(Graph& graph, const Var& x) {
  Var y = graph.like("rotated", x);
  graph.join({x}, {&y},
             [&graph](std::vector<Var> g) { return std::vector{graph.like("d_rotated", g[0])}; });
  return y;
}

Var te_attention(Graph& graph, const Var& q, const Var& k, const Var& v, std::int64_t queries) {
  Var out = graph.make("attention", q.elements, q.type);
  const Var lse = graph.make("lse", queries, DType::fp32);
  graph.join({q, k, v}, {&out},
             [&graph, kept_q = saved(q), kept_k = saved(k), kept_v = saved(v), kept = saved(out),
              lse](const std::vector<Var>&) {
               return std::vector{graph.like("dq", kept_q), graph.like("dk", kept_k),
                                  graph.like("dv", kept_v)};
             });
  return out;
}

Var te_activation(Graph& graph, const Var& x, bool gated) {
  Var y = graph.make("activation", gated ? x.elements / 2 : x.elements, x.type);
  graph.join({x}, {&y}, [&graph, kept = saved(x)](const std::vector<Var>&) {
    return std::vector{graph.like("d_activation", kept)};
  });
  return y;
}

Var te_add(Graph& graph, const Var& branch, const Var& x, bool dropout) {
  Var y = graph.like("add", x);
  const Var mask = dropout ? graph.make("mask", x.elements, DType::fp8) : Var{};
  graph.join({branch, x}, {&y}, [&graph, mask](std::vector<Var> g) {
    Var d_branch = mask ? graph.like("d_dropout", g[0]) : g[0];
    return std::vector{std::move(d_branch), g[0]};
  });
  return y;
}

}  // namespace planwright::estimator::tape
