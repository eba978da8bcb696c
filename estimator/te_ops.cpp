#include "estimator/te_ops.h"

#include <utility>

#include "estimator/tape_layers.h"
#include "estimator/te_fp8_ops.h"

namespace planwright::estimator::tape {
namespace {

Var gathered(Graph& graph, const Var& local, const TensorRanks& ranks) {
  return graph.make("gathered", ranks.whole(local.elements), local.type, Account::communication);
}

/// Of a product of rows of `inputs` to `outputs`, where it is not added to the buffer at once.
Var weight_gradient(Graph& graph, const TensorRanks& ranks, std::int64_t inputs,
                    std::int64_t outputs, DType type) {
  if (!ranks.makes_wgrad) return {};
  return graph.make("weight gradient", inputs * outputs, type, Account::gradients);
}

}  // namespace

Var te_statistics(Graph& graph, const Norm& norm) {
  const bool mean = norm.kind != NormKind::rms_norm;
  return graph.make("norm statistics", (mean ? 2 : 1) * norm.rows, DType::fp32);
}

Var te_norm_linear(Graph& graph, const Var& x, const Norm& norm, std::int64_t outputs,
                   const TensorRanks& ranks) {
  if (ranks.fp8.any()) return fp8_norm_linear(graph, x, norm, outputs, ranks);
  Var normed = graph.like("norm", x);
  const Var stats = te_statistics(graph, norm);
  const std::int64_t rows = ranks.whole(norm.rows);
  const Var whole = ranks.gathers() ? gathered(graph, normed, ranks) : Var{};
  Var y = graph.make("product", rows * outputs, x.type);
  graph.join({x}, {&y},
             [&graph, ranks, rows = norm.rows, outputs, kept = saved(x), normed = saved(normed),
              stats](const std::vector<Var>&) mutable {
               Var again = ranks.gathers() ? gathered(graph, normed, ranks) : Var{};
               Var d_whole = graph.make("d_input", ranks.whole(kept.elements), kept.type);
               Var d_normed = ranks.gathers() ? graph.like("scattered", kept) : d_whole;
               const Var wgrad =
                   weight_gradient(graph, ranks, kept.elements / rows, outputs, kept.type);
               // With the weight's gradient taken these are cleared.
               again = {};
               normed = {};
               return std::vector{graph.like("d_norm", kept)};
             });
  return y;
}

Var te_norm(Graph& graph, const Var& x, const Norm& norm) {
  Var y = graph.like("norm", x);
  graph.join({x}, {&y},
             [&graph, kept = saved(x), stats = te_statistics(graph, norm)](
                 const std::vector<Var>&) { return std::vector{graph.like("d_norm", kept)}; });
  return y;
}

Var te_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
              const TensorRanks& ranks) {
  if (ranks.fp8.any()) return fp8_linear(graph, x, rows, outputs, ranks);
  const Var whole = ranks.gathers() ? gathered(graph, x, ranks) : Var{};
  Var y = graph.make("product", ranks.whole(rows) * outputs, x.type);
  graph.join({x}, {&y}, [&graph, ranks, rows, outputs, kept = saved(x)](const std::vector<Var>&) {
    const Var again = ranks.gathers() ? gathered(graph, kept, ranks) : Var{};
    Var d_whole = graph.make("d_input", ranks.whole(kept.elements), kept.type);
    const Var wgrad = weight_gradient(graph, ranks, kept.elements / rows, outputs, kept.type);
    if (!ranks.gathers()) return std::vector{std::move(d_whole)};
    return std::vector{graph.like("scattered", kept)};
  });
  return y;
}

Var te_row_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
                  const TensorRanks& ranks) {
  if (ranks.fp8.any()) return fp8_row_linear(graph, x, rows, outputs, ranks);
  Var y = graph.make("product", rows * outputs, x.type);
  if (ranks.gathers()) y = graph.make("scattered", y.elements / ranks.count, x.type);
  graph.join({x}, {&y}, [&graph, ranks, rows, outputs, kept = saved(x)](std::vector<Var> g) {
    const Var whole = ranks.gathers() ? gathered(graph, g[0], ranks) : Var{};
    Var d_input = graph.like("d_input", kept);
    const Var wgrad = weight_gradient(graph, ranks, kept.elements / rows, outputs, kept.type);
    return std::vector{std::move(d_input)};
  });
  return y;
}

Var te_move(Graph& graph, const Var& x, std::int64_t elements, std::int64_t kept) {
  Var y = graph.make("moved", elements, x.type);
  const Var map = kept > 0 ? graph.make("map", kept, DType::fp8) : Var{};
  graph.join({x}, {&y}, [&graph, map, back = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("d_moved", back, type)};
  });
  return y;
}

Var te_rotate(Graph& graph, const Var& x) {
  Var y = graph.like("rotated", x);
  graph.join({x}, {&y},
             [&graph](std::vector<Var> g) { return std::vector{graph.like("d_rotated", g[0])}; });
  return y;
}

Var te_fused_attention(Graph& graph, const Qkv& qkv) {
  Var out = graph.like("attention", qkv.q);
  const Var lse = graph.make("lse", qkv.queries, DType::fp32);
  graph.join({qkv.q, qkv.k, qkv.v}, {&out},
             [&graph, q = saved(qkv.q), k = saved(qkv.k), v = saved(qkv.v), kept = saved(out),
              lse](const std::vector<Var>&) {
               return std::vector{graph.like("dq", q), graph.like("dk", k), graph.like("dv", v)};
             });
  return out;
}

Var te_exchanged_attention(Graph& graph, Qkv qkv) {
  for (Var* each : {&qkv.q, &qkv.k, &qkv.v}) *each = te_move(graph, *each, each->elements);
  const Var out = te_fused_attention(graph, qkv);
  return te_move(graph, out, out.elements);
}

Var te_ring_attention(Graph& graph, const Qkv& qkv, std::int64_t ranks) {
  const std::int64_t pair = qkv.k.elements + qkv.v.elements;
  const DType type = qkv.q.type;
  std::vector<Var> pairs, parts;
  for (std::int64_t step = 0; step < ranks; ++step) {
    pairs.push_back(graph.make("keys and values", pair, type));
    parts.push_back(graph.like("part", qkv.q));
  }
  Var out = graph.like("attention", qkv.q);
  const Var lse = graph.make("lse", qkv.queries, DType::fp32);
  graph.join(
      {qkv.q, qkv.k, qkv.v}, {&out},
      [&graph, q = saved(qkv.q), k = qkv.k.elements, v = qkv.v.elements, last = saved(pairs.back()),
       kept = saved(out), lse, pair, type](const std::vector<Var>&) mutable {
        Var dq = graph.like("dq", q);
        const Var sent = graph.make("sent", 2 * pair, type);
        const Var received = graph.make("received", 2 * pair, type);
        const Var part = graph.like("dq of a step", q);
        const Var parts = graph.make("dk and dv of a step", pair, type);
        Var dk{.elements = k, .type = type, .storage = received.storage};
        Var dv{.elements = v, .type = type, .storage = received.storage};
        return std::vector{std::move(dq), std::move(dk), std::move(dv)};
      });
  return out;
}

Var te_flash_attention(Graph& graph, Qkv qkv) {
  qkv.q = copy(graph, qkv.q);
  qkv.k = copy(graph, qkv.k);
  qkv.v = copy(graph, qkv.v);
  const Var out = te_fused_attention(graph, qkv);
  return copy(graph, out);
}

Var te_unfused_attention(Graph& graph, const Qkv& qkv, bool dropout) {
  const std::int64_t scores = qkv.queries * qkv.keys;
  Var weights = graph.make("scores", scores, qkv.q.type);
  weights = graph.make("weights", scores, qkv.q.type);
  const Var softmax = saved(weights);
  const Var mask = dropout ? graph.make("mask", scores, DType::fp8) : Var{};
  if (dropout) weights = graph.make("dropped", scores, qkv.q.type);
  Var out = graph.like("weighted values", qkv.q);
  graph.join({qkv.q, qkv.k, qkv.v}, {&out},
             [&graph, q = saved(qkv.q), k = saved(qkv.k), v = saved(qkv.v), softmax,
              mask = saved(mask), weights = saved(weights)](const std::vector<Var>&) mutable {
               Var d_weights = graph.like("d_weights", weights);
               Var dv = graph.like("dv", v);
               weights = {};
               if (mask) d_weights = graph.like("d_dropped", softmax);
               d_weights = graph.like("d_scores", softmax);
               return std::vector{graph.like("dq", q), graph.like("dk", k), std::move(dv)};
             });
  return copy(graph, out);
}

Var te_activation(Graph& graph, const Var& x, bool gated, const Var& weights) {
  Var y = graph.make("activation", gated ? x.elements / 2 : x.elements, x.type);
  graph.join({x}, {&y}, [&graph, kept = saved(x), weights](const std::vector<Var>&) {
    return std::vector{graph.like("d_activation", kept)};
  });
  return y;
}

Var te_weigh(Graph& graph, const Var& x, const Var& weights) {
  Var y = graph.like("weighed", x);
  graph.join({x}, {&y}, [&graph, kept = saved(x), weights](const std::vector<Var>&) {
    Var dx = graph.like("d_weighed", kept);
    const Var products = graph.like("d_probabilities", kept);
    return std::vector{std::move(dx)};
  });
  return y;
}

Var te_put_back(Graph& graph, const Var& x, std::int64_t elements, bool adds) {
  Var y = graph.make("put back", elements, x.type);
  graph.join(
      {x}, {&y},
      [&graph, kept = saved_if(adds, x), back = x.elements, type = x.type](
          const std::vector<Var>&) { return std::vector{graph.make("d_put_back", back, type)}; });
  return y;
}

Var te_gather(Graph& graph, const Var& x, std::int64_t ranks) {
  return ranks > 1 ? te_move(graph, x, ranks * x.elements) : x;
}

Var te_scatter(Graph& graph, const Var& x, std::int64_t ranks) {
  return ranks > 1 ? te_move(graph, x, x.elements / ranks) : x;
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
