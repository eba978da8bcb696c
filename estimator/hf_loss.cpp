#include "estimator/hf_loss.h"

#include <bit>
#include <utility>

namespace planwright::estimator {

using namespace tape;

namespace {

Weight head_weight(const StepShape& s) {
  return {s.vocab * s.hidden, s.modules.weights, !s.lora.freezes()};
}

DType head_type(const StepShape& s) { return s.modules.autocast ? s.compute : s.modules.weights; }

Var loss_of(Graph& graph, const StepShape& s, const Var& logits, std::int64_t rows) {
  if (s.loss == LossKernel::fused) return fused_cross_entropy(graph, logits, rows);
  // On torch's list of what autocast computes in fp32.
  return cross_entropy(graph, s.modules.autocast ? to(graph, logits, DType::fp32) : logits);
}

/// Logits of all tokens of a sequence but the last.
Var shifted_loss(Graph& graph, const StepShape& s, const Var& logits) {
  const std::int64_t rows = s.batch * (s.seq - 1);
  const Var shifted = copy(graph, narrow(graph, logits, rows * s.vocab));
  return loss_of(graph, s, shifted, rows);
}

}  // namespace

HfLogits hf_logits(Graph& graph, const StepShape& s, const Var& normed) {
  const Matrix head{head_weight(s), head_type(s), false, Account::logits};
  Var logits = linear(graph, normed, head, s.tokens());
  if (s.modules.loss != LossStyle::in_model) return {logits, logits};  // a model's caller has them
  graph.account = Account::logits;
  Var wide = to(graph, logits, DType::fp32);
  return {wide, wide};
}

/// Accelerate hands fp32 copies of a model's outputs to its caller under autocast. Source:
/// accelerate utils/operations.py, ConvertOutputsToFp32 @ v1.15.0.
Var hf_loss(Graph& graph, const StepShape& s, HfLogits given) {
  const LossStyle style = s.modules.loss;
  graph.account = Account::logits;
  if (style == LossStyle::by_caller) return flash_cross_entropy(graph, given.logits, s.tokens());
  Var loss;
  {
    Var logits = std::exchange(given.logits, {});
    if (style != LossStyle::narrow) logits = to(graph, logits, DType::fp32);
    loss = style == LossStyle::shifted_labels ? loss_of(graph, s, logits, s.tokens())
                                              : shifted_loss(graph, s, logits);
  }
  if (s.modules.autocast) to(graph, given.held, DType::fp32);
  return loss;
}

Var hf_chunked_loss(Graph& graph, const StepShape& s, const Var& normed) {
  const Weight weight = head_weight(s);
  const DType type = head_type(s);
  const auto parts = [](std::int64_t whole, std::int64_t part) {
    return (whole + part - 1) / part;
  };
  const auto even = static_cast<std::uint64_t>(parts(s.tokens(), parts(s.vocab, s.hidden)));
  const auto rows = std::min(static_cast<std::int64_t>(std::bit_ceil(even)), s.tokens());
  Var d_weight;
  if (weight.trained)
    d_weight = graph.make("d_head", weight.elements, weight.type, Account::gradients);
  Var d_normed = graph.like("d_normed", normed);
  graph.account = Account::logits;
  Var logits, d_logits;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(2, parts(s.tokens(), rows)); ++i) {
    logits = graph.make("logits", rows * s.vocab, type);
    logits = graph.make("wide logits", rows * s.vocab, DType::fp32);
    logits = graph.make("d_logits", rows * s.vocab, type);
    d_logits = graph.make("scaled d_logits", rows * s.vocab, type);
    const Var part = graph.make("d_normed", rows * s.hidden, type);
  }
  Var loss = graph.make("loss", 1, DType::fp32);
  graph.join({normed}, {&loss},
             [&graph, d_normed = saved(d_normed), d_weight](const std::vector<Var>&) {
               if (d_weight) graph.adopt(d_weight);
               return std::vector{d_normed};
             });
  return loss;
}

}  // namespace planwright::estimator
