#include "estimator/tape_layers.h"

#include <utility>

namespace planwright::estimator::tape {
namespace {

Var leaf(const Weight& weight) {
  return {.elements = weight.elements, .type = weight.type, .needs_gradient = weight.trained};
}

void give(Graph& graph, const char* name, const Weight& weight, DType made) {
  if (!weight.trained) return;
  graph.of_weights([&graph, name, weight, made] {
    Var gradient = graph.make(name, weight.elements, made, Account::gradients);
    if (made != weight.type) {
      gradient = graph.make("to", weight.elements, weight.type, Account::gradients);
    }
    graph.adopt(std::move(gradient));
  });
}

/// Autocast's copy of a weight of another type.
Var cast_weight(Graph& graph, const Matrix& matrix) {
  const Weight& weight = matrix.weight;
  const bool cached_elsewhere = weight.trained && !graph.gradients;
  if (weight.type == matrix.compute || cached_elsewhere) return {};
  return graph.make("cast weight", weight.elements, matrix.compute, Account::parameters);
}

}  // namespace

Var linear(Graph& graph, const Var& input, const Matrix& matrix, std::int64_t rows) {
  const Var x = to(graph, input, matrix.compute);
  const Weight& weight = matrix.weight;
  const Var cast = cast_weight(graph, matrix);
  const std::int64_t outputs = weight.elements / matrix.groups / (x.elements / rows);
  Var y = graph.make("mm", rows * outputs, matrix.compute, matrix.made_for);
  graph.join({x, leaf(weight)}, {&y},
             [&graph, matrix, outputs, elements = x.elements, of_x = x.needs_gradient,
              kept = saved_if(weight.trained, x),
              cast = saved_if(x.needs_gradient, cast)](const std::vector<Var>&) {
               const DType compute = matrix.compute;
               const Weight bias{outputs, matrix.weight.type, matrix.weight.trained};
               Var dx;
               const auto of_input = [&] {
                 if (of_x) dx = graph.make("mm", elements, compute);
               };
               // addmm takes its operands' gradients in the order mat1, mat2, self; mm: mat2, self.
               if (matrix.bias) of_input();
               give(graph, "mm", matrix.weight, compute);
               if (!matrix.bias) of_input();
               if (matrix.bias) give(graph, "sum", bias, compute);
               return std::vector{std::move(dx), Var{}};
             });
  return y;
}

Var float8_linear(Graph& graph, const Var& input, const Matrix& matrix, std::int64_t rows) {
  const Var x = to(graph, input, matrix.compute);
  const Weight& weight = matrix.weight;
  const Var cast = cast_weight(graph, matrix);
  const std::int64_t results = rows * (weight.elements / (x.elements / rows));
  const auto narrow = [&graph](std::int64_t elements) {
    return graph.make("operand in 8 bits", elements, DType::fp8, Account::staging);
  };
  Var y;
  {
    const Var narrow_x = narrow(x.elements), narrow_weight = narrow(weight.elements);
    y = graph.make("mm", results, matrix.compute, matrix.made_for);
  }
  graph.join({x, leaf(weight)}, {&y},
             [&graph, narrow, matrix, results, kept = saved(x),
              cast = saved(cast)](const std::vector<Var>&) {
               const Var d_rows = narrow(results), narrow_weight = narrow(matrix.weight.elements);
               Var dx = graph.make("mm", kept.elements, matrix.compute);
               const Var d_columns = narrow(results), narrow_x = narrow(kept.elements);
               give(graph, "mm", matrix.weight, matrix.compute);
               return std::vector{std::move(dx), Var{}};
             });
  return y;
}

Var linear(Graph& graph, const Var& input, const Quantised& matrix, std::int64_t rows) {
  const auto dequantised = [&graph, matrix] {
    Var half;
    if (matrix.through_half && matrix.compute != DType::fp16) {
      half = graph.make("dequantised", matrix.elements, DType::fp16, Account::staging);
    }
    return graph.make("dequantised", matrix.elements, matrix.compute, Account::staging);
  };
  const Var x = to(graph, input, matrix.compute);
  Var y;
  {
    const Var weight = dequantised();
    y = graph.make("mm", rows * (matrix.elements / (x.elements / rows)), matrix.compute);
  }
  graph.join({x}, {&y},
             [&graph, dequantised, elements = x.elements, type = matrix.compute,
              kept = saved_if(matrix.keeps_input, x)](const std::vector<Var>&) {
               const Var weight = dequantised();
               return std::vector{graph.make("mm", elements, type)};
             });
  return to(graph, y, input.type);
}

Var copy(Graph& graph, const Var& x) {
  Var y = graph.like("clone", x);
  graph.join({x}, {&y}, [](std::vector<Var> g) { return g; });
  return y;
}

Var rotary(Graph& graph, const Var& x, DType table) {
  const Var cosines{x.elements, table};
  const Var straight = mul(graph, x, cosines);
  const auto half_turned = [&] {
    const std::vector<Var> halves = chunk(graph, x, 2);
    return cat(graph, {neg(graph, halves[1]), halves[0]});
  };
  const Var turned = mul(graph, half_turned(), cosines);
  return add(graph, straight, turned);
}

Var repeat(Graph& graph, const Var& x, std::int64_t times) {
  if (times == 1) return x;
  Var y = graph.make("clone", times * x.elements, x.type);
  graph.join({x}, {&y}, [&graph, elements = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("sum", elements, type)};
  });
  return y;
}

Var scale(Graph& graph, const Var& x) {
  Var y = graph.like("mul", x);
  graph.join({x}, {&y},
             [&graph](std::vector<Var> g) { return std::vector{graph.like("mul", g[0])}; });
  return y;
}

Var dropout(Graph& graph, const Var& x) {
  Var y = graph.like("dropout", x);
  const Var mask = graph.make("dropout mask", x.elements, DType::fp8);
  graph.join({x}, {&y}, [&graph, mask](std::vector<Var> g) {
    return std::vector{graph.like("dropout", g[0])};
  });
  return y;
}

Var tanh(Graph& graph, const Var& x) {
  Var y = graph.like("tanh", x);
  graph.join({x}, {&y}, [&graph, kept = saved(y)](std::vector<Var> g) {
    return std::vector{graph.like("tanh", g[0])};
  });
  return y;
}

std::vector<Var> split(Graph& graph, const Var& x, const std::vector<std::int64_t>& elements) {
  std::vector<Var> views;
  std::vector<Var*> outputs;
  for (const std::int64_t each : elements) {
    views.push_back({.elements = each, .type = x.type, .storage = x.storage});
  }
  for (Var& view : views) outputs.push_back(&view);
  graph.join({x}, outputs, [&graph, total = x.elements, type = x.type](const std::vector<Var>&) {
    return std::vector{graph.make("cat", total, type)};
  });
  return views;
}

Var narrow(Graph& graph, const Var& x, std::int64_t elements) {
  Var view{.elements = elements, .type = x.type, .storage = x.storage};
  graph.join({x}, {&view}, [&graph, whole = x.elements](std::vector<Var> g) {
    return std::vector{graph.make("slice", whole, g[0].type)};
  });
  return view;
}

Var layer_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows) {
  Var y = graph.like("layer_norm", x);
  const Var mean = graph.make("mean", rows, DType::fp32);
  const Var deviation = graph.make("rstd", rows, DType::fp32);
  graph.join({x, leaf(weight)}, {&y},
             [&graph, weight, kept = saved(x), mean, deviation](const std::vector<Var>&) {
               Var dx = graph.like("layer_norm", kept);
               give(graph, "layer_norm", weight, weight.type);
               give(graph, "layer_norm", weight, weight.type);
               return std::vector{std::move(dx), Var{}};
             });
  return y;
}

Var rms_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows) {
  Var y = graph.like("rms_norm", x);
  const Var deviation = graph.make("rstd", rows, DType::fp32);
  graph.join({x, leaf(weight)}, {&y},
             [&graph, weight, kept = saved(x), deviation](const std::vector<Var>&) {
               Var dx = graph.like("rms_norm", kept);
               give(graph, "rms_norm", weight, weight.type);
               return std::vector{std::move(dx), Var{}};
             });
  return y;
}

Var fused_rms_norm(Graph& graph, const Var& x, const Weight& weight, std::int64_t rows) {
  Var y = graph.make("rms_norm", x.elements, promoted(weight.type, x.type));
  const Var deviation = graph.make("rstd", rows, DType::fp32);
  graph.join({x, leaf(weight)}, {&y},
             [&graph, weight, kept = saved(x), deviation](std::vector<Var> g) {
               give(graph, "rms_norm", weight, weight.type);
               return std::vector{std::move(g[0]), Var{}};
             });
  return y;
}

Var fused_swiglu(Graph& graph, const Var& gate, const Var& up) {
  Var y = graph.like("swiglu", gate);
  graph.join({gate, up}, {&y},
             [kept_gate = saved(gate), kept_up = saved(up)](const std::vector<Var>&) {
               return std::vector{kept_gate, kept_up};
             });
  return y;
}

Var batched_product(Graph& graph, const Var& a, const Var& b, std::int64_t elements) {
  Var y = graph.make("bmm", elements, a.type);
  graph.join({a, b}, {&y}, [&graph, kept_a = saved(a), kept_b = saved(b)](const std::vector<Var>&) {
    Var db = graph.like("bmm", kept_b);
    Var da = graph.like("bmm", kept_a);
    return std::vector{std::move(da), std::move(db)};
  });
  return y;
}

Var softmax(Graph& graph, const Var& x, DType type) {
  const Var wide = to(graph, x, type);
  Var y = graph.like("softmax", wide);
  graph.join({wide}, {&y}, [&graph, kept = saved(y)](const std::vector<Var>&) {
    return std::vector{graph.like("softmax", kept)};
  });
  return y;
}

Var cross_entropy(Graph& graph, const Var& logits) {
  Var logs = graph.like("log_softmax", logits);
  graph.join({logits}, {&logs}, [&graph, kept = saved(logs)](const std::vector<Var>&) {
    return std::vector{graph.like("log_softmax", kept)};
  });
  Var loss = graph.make("nll_loss", 1, logits.type);
  graph.join({logs}, {&loss}, [&graph, kept = saved(logs)](const std::vector<Var>&) {
    return std::vector{graph.like("nll_loss", kept)};
  });
  return loss;
}

Var fused_cross_entropy(Graph& graph, const Var& logits, std::int64_t rows) {
  const Var losses = graph.make("losses", rows, DType::fp32);
  const Var sums = graph.make("logsumexp", rows, DType::fp32);
  Var loss = graph.make("loss", 1, DType::fp32);
  graph.join({logits}, {&loss},
             [kept = saved(logits), sums](const std::vector<Var>&) { return std::vector{kept}; });
  return loss;
}

Var flash_cross_entropy(Graph& graph, const Var& logits, std::int64_t rows) {
  const Var losses = graph.make("losses", rows, DType::fp32);
  const Var sums = graph.make("logsumexp", rows, DType::fp32);
  Var loss = graph.make("loss", 1, DType::fp32);
  graph.join({logits}, {&loss}, [&graph, kept = saved(logits), sums](const std::vector<Var>&) {
    return std::vector{graph.like("d_logits", kept)};
  });
  return loss;
}

}  // namespace planwright::estimator::tape
