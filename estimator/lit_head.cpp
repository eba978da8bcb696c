#include "estimator/lit_head.h"

#include <memory>
#include <utility>

namespace planwright::estimator {

using namespace tape;

namespace {

DType head_type(const StepShape& s) { return s.modules.autocast ? s.compute : s.modules.weights; }

Weight head_weight(const StepShape& s) {
  return {s.vocab * s.hidden, s.modules.weights, !s.lora.freezes()};
}

Quantised quantised_head(const StepShape& s) {
  return {s.vocab * s.hidden, s.compute, s.modules.keeps_quantised_inputs,
          s.modules.unpacks_through_half};
}

/// A product whose weight's gradients of all chunks are added up in `sum`, which the chunk that is
/// the last to be asked hands over. `cast`: the weight in the type that is computed in.
Var product(Graph& graph, const StepShape& s, const Var& input, const Var& cast, std::int64_t rows,
            const std::shared_ptr<Var>& sum, bool hands_over) {
  const Weight weight = head_weight(s);
  const DType type = head_type(s);
  const Var x = to(graph, input, type);
  Var y = graph.make("logits", rows * s.vocab, type, Account::logits);
  graph.join({x, {.elements = weight.elements, .needs_gradient = weight.trained}}, {&y},
             [&graph, weight, type, sum, hands_over, cast = saved(cast), elements = x.elements,
              kept = saved_if(weight.trained, x)](const std::vector<Var>&) {
               if (weight.trained) {
                 Var part = graph.make("d_head", weight.elements, type, Account::gradients);
                 if (type != weight.type) {
                   part = graph.make("to", weight.elements, weight.type, Account::gradients);
                 }
                 if (!*sum) *sum = std::move(part);
                 part = {};
                 if (hands_over) graph.adopt(std::exchange(*sum, {}));
               }
               return std::vector{graph.make("mm", elements, type), Var{}};
             });
  return y;
}

Var cast_head(Graph& graph, const StepShape& s) {
  const Weight weight = head_weight(s);
  if (weight.type == head_type(s)) return {};
  return graph.make("cast weight", weight.elements, head_type(s), Account::parameters);
}

/// do_softcapping.
Var capped(Graph& graph, const Var& logits) {
  return scale(graph, tanh(graph, scale(graph, logits)));
}

}  // namespace

std::vector<Var> lit_logits(Graph& graph, const StepShape& s, const Var& x,
                            const std::vector<std::int64_t>& rows) {
  std::vector<Var> parts{x};
  if (rows.size() > 1) {
    std::vector<std::int64_t> elements;
    for (const std::int64_t each : rows) elements.push_back(each * s.hidden);
    parts = split(graph, x, elements);
  }
  const auto sum = std::make_shared<Var>();
  const bool quantised = s.modules.quantised && s.modules.quantised_head;
  const Var cast = quantised ? Var{} : cast_head(graph, s);
  std::vector<Var> logits;
  graph.account = Account::logits;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    logits.push_back(quantised ? linear(graph, parts[i], quantised_head(s), rows[i])
                               : product(graph, s, parts[i], cast, rows[i], sum, i == 0));
    if (s.modules.capped_logits) logits.back() = capped(graph, logits.back());
  }
  return logits;
}

Var lit_loss(Graph& graph, const StepShape& s, std::vector<Var> logits) {
  if (s.modules.logit_rows > 0) {  // the label of a sequence's last row is the next one's
    Var& last = logits.back();
    last = narrow(graph, last, last.elements - s.batch * s.vocab);
    if (s.batch > 1) last = copy(graph, last);
  }
  std::vector<Var> losses;
  for (const Var& chunk : logits) losses.push_back(cross_entropy(graph, chunk));
  return cat(graph, losses);
}

}  // namespace planwright::estimator
