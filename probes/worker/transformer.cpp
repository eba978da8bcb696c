#include "probes/worker/transformer.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "estimator/spec/loss_chunks.h"
#include "estimator/spec/recompute_plan.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/empty_rows.h"
#include "probes/worker/matmul.h"
#include "probes/worker/spending.h"

namespace planwright::worker {

Pass::Pass(const PassContext& context, MicroBatch micro_batch)
    : c_(context),
      in_(std::move(micro_batch)),
      inputs_(static_cast<std::size_t>(c_.part.layers)),
      states_(static_cast<std::size_t>(c_.part.layers)) {}

BlockContext Pass::block(std::int64_t layer) const {
  const std::int64_t of_model = c_.part.first_layer + layer;
  return {.spec = tensor_share(c_.model.block(of_model), c_.tensor.size()),
          .layer = of_model,
          .weights = c_.weights.blocks[static_cast<std::size_t>(layer)],
          .rotary = c_.weights.rotary,
          .kernels = c_.kernels,
          .tensor = c_.tensor,
          .attention = c_.attention,
          .recompute_core = recomputed_modules(c_.recompute).core_attn,
          .dropout = c_.dropout,
          .batch = in_.batch,
          .seq = in_.seq};
}

VocabShare Pass::vocab() const {
  const std::int64_t share = vocab_share(c_.model.vocab, c_.tensor.size());
  const std::int64_t first = c_.tensor.rank() * share;
  return {first, std::clamp<std::int64_t>(c_.model.vocab - first, 0, share), c_.tensor.size() == 1};
}

at::TensorOptions Pass::options() const { return c_.weights.options; }

DropMask Pass::embedding_mask() const {
  const std::int64_t width = c_.model.hidden;
  return c_.dropout.mask(DropSite::embedding, 0, in_.seq * width,
                         c_.tensor.first_row(rows()) * width);
}

at::Tensor Pass::embed() const {
  const EmbeddingWeights& w = c_.weights.embedding;
  at::Tensor x = at::empty({c_.tensor.local_rows(rows()), c_.model.hidden}, options());
  {
    const at::Tensor whole = c_.tensor.partial(x);
    c_.kernels.embed(in_.ids, w.tokens, vocab(), whole);
    c_.tensor.reduce(whole, x);
  }
  if (w.positions.defined()) {
    c_.kernels.add_positions(w.positions, c_.tensor.first_row(rows()), in_.seq, x);
  }
  if (c_.dropout.hidden > 0) drop(x, embedding_mask(), x);
  return x;
}

at::Tensor Pass::forward(at::Tensor x) {
  const PhaseScope phase(Phase::forward);
  const std::int64_t layers = c_.part.layers;
  const auto next_of = [&](std::int64_t layer) {
    return layer < layers ? std::optional(unit(layer)) : std::nullopt;
  };
  if (c_.part.first) {
    c_.windows.enter(c_.part.embedding_unit(), next_of(0));
    x = embed();
    c_.windows.leave(c_.part.embedding_unit());
  }
  for (const RecomputeSegment& segment : recompute_segments(c_.recompute, layers)) {
    for (std::int64_t layer = segment.first; layer < segment.first + segment.count; ++layer) {
      c_.windows.enter(unit(layer), next_of(layer + 1));
      BlockState state = block_state(block(layer), x);
      at::Tensor y = block_output(block(layer), state, x);
      drop_recomputed(block(layer), state);
      c_.windows.leave(unit(layer));
      const auto at = static_cast<std::size_t>(layer);
      if (!segment.recomputed) states_[at] = std::move(state);
      if (!segment.recomputed || layer == segment.first) inputs_[at] = std::move(x);
      x = std::move(y);
    }
  }
  if (!c_.part.last) return x;
  inputs_.push_back(std::move(x));
  return {};
}

void Pass::head_forward() {
  const at::Tensor& x = inputs_.back();
  const NormWeights& norm = c_.weights.final_norm;
  normed_ = at::empty(x.sizes(), options());
  stats_ = empty_stats(norm, x.size(0), x);
  c_.kernels.norm_forward(x, norm, normed_, stats_);
  whole_ = c_.tensor.gathered(normed_);
}

at::Tensor Pass::logits_of(const at::Tensor& whole) const {
  const AccountScope account(Account::logits);
  at::Tensor logits = at::empty({whole.size(0), c_.weights.head.weight.size(0)}, options());
  linear(whole, c_.weights.head, logits);
  return logits;
}

namespace {

/// Logits in another type, instead of those that there were.
void convert(at::Tensor& logits, at::ScalarType type) {
  if (logits.scalar_type() == type) return;
  const AccountScope account(Account::logits);
  at::Tensor converted = at::empty(logits.sizes(), logits.options().dtype(type));
  converted.copy_(logits);
  logits = std::move(converted);
}

}  // namespace

double Pass::loss_and_gradient(at::Tensor& logits, const at::Tensor& targets) const {
  if (upcasts_logits(c_.loss)) convert(logits, wide());
  if (c_.tensor.size() == 1) {
    return c_.kernels.cross_entropy(logits, targets, c_.gradient_scale);
  }
  const AccountScope account(Account::communication);
  const auto numbers = logits.options().dtype(wide());
  const at::Tensor sums = at::empty({2, logits.size(0)}, numbers);
  const at::Tensor largest = at::empty({logits.size(0)}, numbers);
  c_.kernels.largest_logits(logits, vocab(), largest);
  c_.tensor.group().maximum(largest);
  c_.kernels.sum_exponentials(logits, targets, vocab(), largest, sums);
  c_.tensor.group().sum(sums);
  return c_.kernels.shared_cross_entropy(logits, targets, vocab(), largest, sums,
                                         c_.gradient_scale);
}

/// The gradient of the head's input goes into its storage.
void Pass::head_product_backward(at::Tensor logits, const at::Tensor& whole) const {
  convert(logits, whole.scalar_type());
  weight_gradient(c_.kernels, logits, whole, c_.weights.head);
  input_gradient(logits, c_.weights.head, whole);
}

void Pass::head_chunk(std::int64_t first, std::int64_t rows) {
  const at::Tensor whole = whole_.narrow(0, first, rows);
  at::Tensor logits;
  {
    const PhaseScope phase(Phase::forward);
    logits = logits_of(whole);
  }
  {
    const PhaseScope phase(Phase::loss);
    loss_ += loss_and_gradient(logits, in_.targets.narrow(0, first, rows));
  }
  const PhaseScope phase(Phase::backward);
  if (first == 0) c_.windows.open_gradients(c_.part.head_unit());
  head_product_backward(std::move(logits), whole);
}

/// Returns the gradient of the final norm's input.
at::Tensor Pass::head_backward() {
  c_.tensor.reduce(whole_, normed_);
  whole_.reset();
  at::Tensor dy = std::move(normed_);
  c_.kernels.norm_backward(dy, inputs_.back(), stats_, c_.weights.final_norm, dy, false);
  stats_.reset();
  inputs_.pop_back();
  return dy;
}

at::Tensor Pass::backward(at::Tensor dy) {
  const auto visits = backward_visits(c_.recompute, c_.part.layers);
  const auto next_of = [&](std::size_t visit) {
    return visit < visits.size() ? std::optional(unit(visits[visit].layer)) : std::nullopt;
  };
  if (c_.part.last) dy = head(next_of(0));
  const PhaseScope phase(Phase::backward);
  for (std::size_t i = 0; i < visits.size(); ++i) {
    const std::int64_t layer = visits[i].layer;
    c_.windows.enter(unit(layer), next_of(i + 1));
    if (visits[i].kind == BackwardVisit::Kind::rebuild) {
      rebuild(layer);
    } else {
      c_.windows.open_gradients(unit(layer));
      block_backward(layer, visits[i].kind == BackwardVisit::Kind::rebuild_and_backward, dy);
    }
    c_.windows.leave(unit(layer));
    if (visits[i].kind != BackwardVisit::Kind::rebuild) c_.windows.complete_gradients(unit(layer));
  }
  if (c_.part.first) embedding_backward(dy);
  c_.windows.end_backward();
  return c_.part.first ? at::Tensor() : dy;
}

at::Tensor Pass::head(std::optional<std::int64_t> next) {
  const std::int64_t unit = c_.part.head_unit();
  {
    const PhaseScope phase(Phase::forward);
    c_.windows.enter(unit, next);
    head_forward();
  }
  const LossChunks chunks = loss_chunks(c_.loss, rows());
  for (std::int64_t first = 0; first < rows(); first += chunks.rows) {
    head_chunk(first, std::min(chunks.rows, rows() - first));
  }
  const PhaseScope phase(Phase::backward);
  at::Tensor dy = head_backward();
  c_.windows.leave(unit);
  c_.windows.complete_gradients(unit);
  return dy;
}

void Pass::rebuild(std::int64_t layer) {
  const SpendingScope spending(Spending::recompute);
  const auto at = static_cast<std::size_t>(layer);
  states_[at] = block_state(block(layer), inputs_[at]);
  inputs_[at + 1] = block_output(block(layer), states_[at], inputs_[at]);
}

void Pass::block_backward(std::int64_t layer, bool rebuilt, const at::Tensor& dy) {
  const auto at = static_cast<std::size_t>(layer);
  at::Tensor x = std::move(inputs_[at]);
  BlockState state;
  if (rebuilt) {
    const SpendingScope spending(Spending::recompute);
    state = block_state(block(layer), x);
  } else {
    state = std::move(states_[at]);
  }
  worker::block_backward(block(layer), std::move(state), std::move(x), dy);
}

void Pass::embedding_backward(const at::Tensor& dy) {
  const std::int64_t unit = c_.part.embedding_unit();
  const EmbeddingWeights& w = c_.weights.embedding;
  if (!w.trained) return;
  c_.windows.open_gradients(unit);
  if (c_.dropout.hidden > 0) drop(dy, embedding_mask(), dy);
  {
    const at::Tensor whole = c_.tensor.gathered(dy);
    c_.kernels.embed_backward(in_.ids, whole, w.tokens_gradient, vocab());
  }
  if (w.positions_gradient.defined()) {
    c_.kernels.positions_backward(dy, c_.tensor.first_row(rows()), in_.seq, w.positions_gradient);
  }
  c_.windows.complete_gradients(unit);
}

double forward_backward(const PassContext& context, MicroBatch micro_batch) {
  Pass pass(context, std::move(micro_batch));
  pass.forward({});
  pass.backward({});
  return pass.loss();
}

}  // namespace planwright::worker
