#include "estimator/tape_ops.h"

#include <algorithm>
#include <utility>

namespace planwright::estimator::tape {
namespace {

/// The sum over what an operand was repeated over.
Var reduced(Graph& graph, Var gradient, std::int64_t elements) {
  if (gradient.elements == elements) return gradient;
  return graph.make("sum", elements, gradient.type);
}

/// Of an operator with one input and output whose backward makes one tensor out of what it saved.
Var pointwise(Graph& graph, const char* name, const Var& x, const Var& kept_of_input) {
  Var y = graph.like(name, x);
  graph.join({x}, {&y}, [&graph, name, kept = kept_of_input, type = x.type](std::vector<Var> g) {
    return std::vector{graph.make(name, g[0].elements, type)};
  });
  return y;
}

}  // namespace

DType promoted(DType a, DType b) { return bytes_of(a) >= bytes_of(b) ? a : b; }

Var to(Graph& graph, const Var& x, DType type) {
  if (x.type == type) return x;
  Var y = graph.make("to", x.elements, type);
  graph.join({x}, {&y}, [&graph, type = x.type](std::vector<Var> g) {
    return std::vector{graph.make("to", g[0].elements, type)};
  });
  return y;
}

Var add(Graph& graph, const Var& a, const Var& b) {
  Var y = graph.make("add", std::max(a.elements, b.elements), promoted(a.type, b.type));
  graph.join({a, b}, {&y}, [](std::vector<Var> g) { return std::vector{g[0], g[0]}; });
  return y;
}

Var mul(Graph& graph, const Var& a, const Var& b) {
  Var y = graph.make("mul", std::max(a.elements, b.elements), promoted(a.type, b.type));
  graph.join({a, b}, {&y},
             [&graph, of_a = a.needs_gradient, of_b = b.needs_gradient, a_elements = a.elements,
              b_elements = b.elements, kept_a = saved_if(b.needs_gradient, a),
              kept_b = saved_if(a.needs_gradient, b)](std::vector<Var> g) {
               Var da, db;
               if (of_a) da = graph.like("mul", g[0]);
               if (of_b) db = graph.like("mul", g[0]);
               if (of_a) da = reduced(graph, std::move(da), a_elements);
               if (of_b) db = reduced(graph, std::move(db), b_elements);
               return std::vector{std::move(da), std::move(db)};
             });
  return y;
}

Var mul(Graph& graph, const Weight& weight, const Var& x) {
  Var y = graph.make("mul", x.elements, promoted(weight.type, x.type));
  Var leaf{.elements = weight.elements, .type = weight.type, .needs_gradient = weight.trained};
  graph.join({leaf, x}, {&y},
             [&graph, weight, of_x = x.needs_gradient,
              kept = saved_if(weight.trained, x)](std::vector<Var> g) {
               Var dw, dx;
               if (weight.trained) dw = graph.like("mul", g[0]);
               if (of_x) dx = graph.like("mul", g[0]);
               if (weight.trained) {
                 dw = reduced(graph, std::move(dw), weight.elements);
                 graph.adopt(std::move(dw));
               }
               return std::vector{Var{}, std::move(dx)};
             });
  return y;
}

Var square(Graph& graph, const Var& x) {
  Var y = graph.like("pow", x);
  graph.join({x}, {&y}, [&graph, kept = saved(x)](std::vector<Var> g) {
    const Var power = graph.like("pow", kept);
    const Var scaled = graph.like("mul", kept);
    return std::vector{graph.like("mul", g[0])};
  });
  return y;
}

Var mean(Graph& graph, const Var& x, std::int64_t rows) {
  Var y = graph.make("mean", rows, x.type);
  graph.join({x}, {&y}, [&graph, elements = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("div", elements, type)};
  });
  return y;
}

Var rsqrt(Graph& graph, const Var& x) {
  Var y = graph.like("rsqrt", x);
  graph.join({x}, {&y}, [&graph, kept = saved(y)](std::vector<Var> g) {
    const Var power = graph.like("pow", kept);
    const Var scaled = graph.like("mul", g[0]);
    return std::vector{graph.like("mul", g[0])};
  });
  return y;
}

Var neg(Graph& graph, const Var& x) { return pointwise(graph, "neg", x, {}); }
Var silu(Graph& graph, const Var& x) { return pointwise(graph, "silu", x, saved(x)); }
Var gelu(Graph& graph, const Var& x) { return pointwise(graph, "gelu", x, saved(x)); }

std::vector<Var> chunk(Graph& graph, const Var& x, int parts) {
  std::vector<Var> views;
  for (int i = 0; i < parts; ++i) {
    Var view{.elements = x.elements / parts, .type = x.type, .storage = x.storage};
    graph.join({x}, {&view}, [&graph, elements = x.elements](std::vector<Var> g) {
      return std::vector{graph.make("slice", elements, g[0].type)};
    });
    views.push_back(std::move(view));
  }
  return views;
}

Var cat(Graph& graph, const std::vector<Var>& parts) {
  std::int64_t elements = 0;
  for (const Var& each : parts) elements += each.elements;
  Var y = graph.make("cat", elements, parts.front().type);
  std::vector<std::int64_t> sizes;
  for (const Var& each : parts) sizes.push_back(each.elements);
  graph.join(parts, {&y}, [sizes](std::vector<Var> g) {
    std::vector<Var> views;
    for (const std::int64_t size : sizes) {
      views.push_back({.elements = size, .type = g[0].type, .storage = g[0].storage});
    }
    return views;
  });
  return y;
}

Var linear(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows) {
  const std::int64_t inputs = x.elements / rows;
  Var y = graph.make("mm", rows * (weight.elements / inputs), x.type);
  const Var leaf{
      .elements = weight.elements, .type = weight.type, .needs_gradient = weight.trained};
  graph.join({x, leaf}, {&y},
             [&graph, weight, elements = x.elements, of_x = x.needs_gradient,
              kept = saved_if(weight.trained, x)](std::vector<Var> g) {
               Var dx, dw;
               if (weight.trained) {
                 dw = graph.make("mm", weight.elements, weight.type, Account::gradients);
                 graph.adopt(std::move(dw));
               }
               if (of_x) dx = graph.make("mm", elements, g[0].type);
               return std::vector{std::move(dx), Var{}};
             });
  return y;
}

Var flash_attention(Graph& graph, const Var& q, const Var& k, const Var& v, const Heads& heads) {
  const std::int64_t width = heads.value_width > 0 ? heads.value_width : heads.width;
  Var out = graph.make("flash", q.elements / heads.width * width, q.type);
  const Var lse = graph.make("lse", heads.batch * heads.heads * heads.seq, DType::fp32);
  graph.call("flash", heads.forward_workspace);
  graph.join({q, k, v}, {&out},
             [&graph, kept_q = saved(q), kept_k = saved(k), kept_v = saved(v), kept = saved(out),
              lse, heads](const std::vector<Var>&) {
               Var dq = graph.like("flash", kept_q);
               Var dk = graph.like("flash", kept_k);
               Var dv = graph.like("flash", kept_v);
               graph.call("flash backward", heads.backward_workspace);
               std::vector<Var> scratch;
               if (heads.sums_apart) {
                 scratch.push_back(graph.like("softmax_d", lse));
                 scratch.push_back(graph.make("dq_accum", kept_q.elements, DType::fp32));
               }
               for (int i = 0; heads.sums_apart && heads.heads != heads.kv_heads && i < 2; ++i) {
                 scratch.push_back(graph.like("dkv_expanded", kept_q));
               }
               return std::vector{std::move(dq), std::move(dk), std::move(dv)};
             });
  return out;
}

}  // namespace planwright::estimator::tape
