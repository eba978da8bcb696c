#include "estimator/fa_ops.h"

#include <utility>

namespace planwright::estimator::tape {
namespace {

void give(Graph& graph, const char* name, std::int64_t elements, DType type) {
  graph.adopt(graph.make(name, elements, type, Account::gradients));
}

}  // namespace

Var fa_norm(Graph& graph, const Var& x, std::int64_t rows, std::int64_t width) {
  Var y = graph.like("norm", x);
  graph.join({x}, {&y},
             [&graph, width, kept = saved(x),
              stats = graph.make("norm statistics", rows, DType::fp32)](const std::vector<Var>&) {
               Var dx = graph.like("d_norm", kept);
               give(graph, "d_norm_weight", width, kept.type);
               return std::vector{std::move(dx)};
             });
  return y;
}

Var fa_column_linear(Graph& graph, const Var& x, std::int64_t rows, const SpreadMatrix& matrix) {
  const TensorRanks& ranks = matrix.ranks;
  const std::int64_t outputs = matrix.weight / (x.elements / rows);
  Var input = saved(x);
  if (ranks.gathers() && matrix.keeps_gathered) {
    input = graph.make("gathered", ranks.whole(x.elements), x.type);
  }
  Var y = graph.make("product", ranks.whole(rows) * outputs, x.type, matrix.made_for);
  graph.join(
      {x}, {&y},
      [&graph, matrix, elements = x.elements, kept = std::move(input)](const std::vector<Var>&) {
        const TensorRanks& ranks = matrix.ranks;
        Var dx = graph.make("d_input", ranks.whole(elements), kept.type);
        Var scattered;
        if (ranks.gathers()) scattered = graph.make("scattered", elements, kept.type);
        give(graph, "d_weight", matrix.weight, kept.type);
        return std::vector{ranks.gathers() ? std::move(scattered) : std::move(dx)};
      });
  return y;
}

Var fa_row_linear(Graph& graph, const Var& x, std::int64_t rows, const SpreadMatrix& matrix,
                  bool turned) {
  const auto in_order = [&graph, turned](const Var& input) {
    return turned ? graph.like("in order", input) : Var{};
  };
  Var y;
  {
    const Var copy = in_order(x);
    y = graph.make("product", rows * (matrix.weight / (x.elements / rows)), x.type);
  }
  const TensorRanks& ranks = matrix.ranks;
  if (ranks.gathers()) y = graph.make("scattered", y.elements / ranks.count, x.type);
  graph.join({x}, {&y}, [&graph, matrix, in_order, kept = saved(x)](const std::vector<Var>&) {
    Var dx = graph.like("d_input", kept);
    const Var copy = in_order(kept);
    give(graph, "d_weight", matrix.weight, kept.type);
    return std::vector{std::move(dx)};
  });
  return y;
}

Var fa_reordered(Graph& graph, const Var& x) {
  Var y = graph.like("reordered", x);
  graph.join({x}, {&y},
             [&graph](std::vector<Var> g) { return std::vector{graph.like("d_reordered", g[0])}; });
  return y;
}

Var fa_cross_entropy(Graph& graph, const Var& logits) {
  const Var softmax = graph.like("softmax", logits);
  Var loss = graph.make("loss", 1, DType::fp32);
  graph.join({logits}, {&loss},
             [kept = saved(softmax)](const std::vector<Var>&) { return std::vector{kept}; });
  return loss;
}

}  // namespace planwright::estimator::tape
