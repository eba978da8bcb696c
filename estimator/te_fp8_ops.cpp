#include "estimator/te_fp8_ops.h"

#include <utility>

namespace planwright::estimator::tape {
namespace {

/// What sums along rows, and what along columns; of one storage where the same bytes serve.
struct Operand {
  Var rows, columns;
};

struct Usage {
  bool rows = true, columns = true;
};

Operand narrow(Graph& graph, const Fp8& fp8, const NarrowMatrix& m, Usage usage, Account account) {
  Operand made;
  const bool copies = fp8.copies_columns();
  if (usage.rows || !copies) {
    made.rows = graph.make("rows in 8 bits", row_bytes(fp8, m), DType::fp8, account);
  }
  if (!copies) {
    made.columns = made.rows;
  } else if (usage.columns) {
    made.columns = graph.make("columns in 8 bits", column_bytes(fp8, m), DType::fp8, account);
  }
  return made;
}

Operand narrow(Graph& graph, const Fp8& fp8, const NarrowMatrix& m, Usage usage) {
  return narrow(graph, fp8, m, usage, graph.account);
}

/// The input of a product whose backward takes it once more.
struct Input {
  NarrowMatrix local, whole;  ///< rows of this rank, and of all that it is gathered from
  bool gathers = false;
  /// Tensors with one scale are gathered by rows only, and turned where they have arrived.
  bool by_rows = false;

  Usage kept() const { return {by_rows, !by_rows}; }
};

Input input_of(const Var& x, std::int64_t rows, const TensorRanks& ranks) {
  Input input;
  input.local = {rows, x.elements / rows};
  input.whole = {ranks.whole(rows), input.local.columns};
  input.gathers = ranks.gathers();
  input.by_rows = input.gathers && ranks.fp8.scales_tensors();
  return input;
}

Var kept_of(const Operand& operand, const Input& input) {
  return input.by_rows ? saved(operand.rows) : saved(operand.columns);
}

/// Every rank's rows, for the forward's product.
Var gathered_rows(Graph& graph, const Fp8& fp8, const Input& input) {
  if (!input.gathers) return {};
  return narrow(graph, fp8, input.whole, {true, false}, Account::communication).rows;
}

/// Every rank's rows as they are kept, for the weight's gradient.
Operand gathered_again(Graph& graph, const Fp8& fp8, const Input& input) {
  if (!input.gathers) return {};
  return narrow(graph, fp8, input.whole, input.kept(), Account::communication);
}

/// By rows they have arrived, and are turned before the product.
Var turned(Graph& graph, const Fp8& fp8, const Input& input) {
  if (!input.by_rows || !fp8.copies_columns()) return {};
  return narrow(graph, fp8, input.whole, {false, true}).columns;
}

Var weight_gradient(Graph& graph, const TensorRanks& ranks, const NarrowMatrix& weight,
                    DType type) {
  if (!ranks.makes_wgrad) return {};
  return graph.make("weight gradient", weight.elements(), type, Account::gradients);
}

/// Of a wide input that was kept: tensors with one scale in both ways, but where rows are gathered.
Operand narrow_again(Graph& graph, const Fp8& fp8, const Input& input) {
  return narrow(graph, fp8, input.local, {fp8.scales_tensors(), !input.by_rows});
}

}  // namespace

/// The norm writes in 8 bits at once where the scale is known before. Source: pytorch/csrc/
/// extensions/normalization.cpp.
Var fp8_norm_linear(Graph& graph, const Var& x, const Norm& norm, std::int64_t outputs,
                    const TensorRanks& ranks) {
  const Fp8 fp8 = ranks.fp8;
  const Input input = input_of(x, norm.rows, ranks);
  const Var stats = te_statistics(graph, norm);
  const Operand normed = narrow(graph, fp8, input.local, {true, graph.gradients && !input.by_rows});
  if (fp8.recipe != Fp8Recipe::delayed) const Var wide = graph.like("norm", x);
  const Var whole = gathered_rows(graph, fp8, input);
  Var y = graph.make("product", input.whole.rows * outputs, x.type);
  graph.join(
      {x}, {&y},
      [&graph, ranks, fp8, input, outputs, kept = saved(x), narrowed = kept_of(normed, input),
       stats](const std::vector<Var>&) mutable {
        const Operand dy = narrow(graph, fp8, {input.whole.rows, outputs}, {});
        Operand again = gathered_again(graph, fp8, input);
        const Var d_whole = graph.make("d_input", input.whole.elements(), kept.type);
        const Var d_normed = input.gathers ? graph.like("scattered", kept) : d_whole;
        Var columns = turned(graph, fp8, input);
        const Var wgrad = weight_gradient(graph, ranks, {outputs, input.whole.columns}, kept.type);
        // With the weight's gradient taken these are cleared.
        again = {};
        columns = {};
        narrowed = {};
        return std::vector{graph.like("d_norm", kept)};
      });
  return y;
}

Var fp8_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
               const TensorRanks& ranks) {
  const Fp8 fp8 = ranks.fp8;
  const bool keeps = ranks.keeps_input;
  const Input input = input_of(x, rows, ranks);
  const bool wants = graph.gradients && !keeps && !input.by_rows;
  const Operand operand = narrow(graph, fp8, input.local, {true, wants});
  const Var whole = gathered_rows(graph, fp8, input);
  Var y = graph.make("product", input.whole.rows * outputs, x.type);
  graph.join(
      {x}, {&y},
      [&graph, ranks, fp8, keeps, input, outputs, type = x.type,
       kept = keeps ? saved(x) : kept_of(operand, input)](const std::vector<Var>&) {
        const Operand dy = narrow(graph, fp8, {input.whole.rows, outputs}, {});
        const Operand remade = keeps ? narrow_again(graph, fp8, input) : Operand{};
        const Operand again = gathered_again(graph, fp8, input);
        Var d_whole = graph.make("d_input", input.whole.elements(), type);
        Var d_local = input.gathers ? graph.make("scattered", input.local.elements(), type)
                                    : std::move(d_whole);
        const Var columns = turned(graph, fp8, input);
        const Var wgrad = weight_gradient(graph, ranks, {outputs, input.whole.columns}, type);
        return std::vector{std::move(d_local)};
      });
  return y;
}

Var fp8_row_linear(Graph& graph, const Var& x, std::int64_t rows, std::int64_t outputs,
                   const TensorRanks& ranks) {
  const Fp8 fp8 = ranks.fp8;
  const bool keeps = ranks.keeps_input;
  const Input input{.local = {rows, x.elements / rows}, .whole = {rows, x.elements / rows}};
  const Operand operand = narrow(graph, fp8, input.local, {true, graph.gradients && !keeps});
  Var y = graph.make("product", rows * outputs, x.type);
  if (ranks.gathers()) y = graph.make("scattered", y.elements / ranks.count, x.type);
  graph.join(
      {x}, {&y},
      [&graph, ranks, fp8, keeps, input, rows, outputs, type = x.type,
       kept = keeps ? saved(x) : saved(operand.columns)](const std::vector<Var>&) {
        const bool gathers = ranks.gathers();
        Operand own = gathers ? narrow(graph, fp8, {rows / ranks.count, outputs},
                                       {true, !fp8.scales_tensors()})
                              : Operand{};
        const Operand dy = narrow(graph, fp8, {rows, outputs}, {},
                                  gathers ? Account::communication : graph.account);
        own = {};
        const Operand remade = keeps ? narrow_again(graph, fp8, input) : Operand{};
        Var d_input = graph.make("d_input", input.local.elements(), type);
        const Var wgrad = weight_gradient(graph, ranks, {outputs, input.local.columns}, type);
        return std::vector{std::move(d_input)};
      });
  return y;
}

}  // namespace planwright::estimator::tape
