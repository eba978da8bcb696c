#include <ATen/ATen.h>

#include <algorithm>
#include <limits>

#include "probes/worker/kernels.h"

// Wide: in the accumulation type. Whatever is narrower is first copied into it, so that no operator
// makes a hidden copy of its own. docs/runtime.md lists what is allocated here, line by line.
namespace planwright::worker {
namespace {

at::Tensor wide_copy(const at::Tensor& x, const at::Tensor& like) {
  at::Tensor copy = at::empty(x.sizes(), like.options());
  copy.copy_(x);
  return copy;
}

/// The tensor itself if it is wide already.
at::Tensor wide(const at::Tensor& x, const at::Tensor& like) {
  return x.scalar_type() == like.scalar_type() ? x : wide_copy(x, like);
}

bool centered(const NormWeights& w) { return w.kind == NormKind::layer_norm; }

/// One statistic as a column.
at::Tensor column(const at::Tensor& stats, std::int64_t which) {
  return stats.select(0, which).unsqueeze(1);
}

at::Tensor reciprocal_column(const at::Tensor& stats) { return column(stats, stats.size(0) - 1); }

/// (x - mean) / deviation, wide.
at::Tensor normalized(const at::Tensor& x, const at::Tensor& stats, const NormWeights& w) {
  at::Tensor unit = wide_copy(x, stats);
  if (centered(w)) unit.sub_(column(stats, 0));
  return unit.mul_(reciprocal_column(stats));
}

/// Rows of a part of the vocabulary. `outside` [rows, 1] is undefined where no token can be.
struct LocalRows {
  LocalRows(const at::Tensor& ids, const VocabShare& vocab) : index(ids) {
    if (vocab.whole) return;
    index = ids - vocab.first;
    outside = index.lt(0).logical_or_(index.ge(vocab.valid)).unsqueeze_(1);
    index.clamp_(0, std::max<std::int64_t>(vocab.valid - 1, 0));
  }
  at::Tensor index, outside;
};

/// Calls body(row, position, count) for each stretch of rows that lies in one sequence.
template <class Body>
void over_sequences(std::int64_t first_row, std::int64_t rows, std::int64_t seq, const Body& body) {
  for (std::int64_t row = 0; row < rows;) {
    const std::int64_t position = (first_row + row) % seq;
    const std::int64_t count = std::min(seq - position, rows - row);
    body(row, position, count);
    row += count;
  }
}

class ComposedKernels : public Kernels {
 public:
  void embed(const at::Tensor& ids, const at::Tensor& tokens, const VocabShare& vocab,
             const at::Tensor& out) const override {
    const LocalRows local(ids, vocab);
    at::Tensor rows = out;
    at::index_select_out(rows, tokens, 0, local.index);
    if (local.outside.defined()) rows.masked_fill_(local.outside, 0);
  }

  void embed_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& gradient,
                      const VocabShare& vocab) const override {
    const LocalRows local(ids, vocab);
    if (!local.outside.defined()) {
      gradient.index_add_(0, ids, wide(dy, gradient));
      return;
    }
    const at::Tensor rows = wide_copy(dy, gradient);
    gradient.index_add_(0, local.index, rows.masked_fill_(local.outside, 0));
  }

  void add_positions(const at::Tensor& positions, std::int64_t first_row, std::int64_t seq,
                     const at::Tensor& out) const override {
    over_sequences(first_row, out.size(0), seq, [&](auto row, auto position, auto count) {
      out.narrow(0, row, count).add_(positions.narrow(0, position, count));
    });
  }

  void positions_backward(const at::Tensor& dy, std::int64_t first_row, std::int64_t seq,
                          const at::Tensor& gradient) const override {
    const at::Tensor rows = wide(dy, gradient);
    over_sequences(first_row, dy.size(0), seq, [&](auto row, auto position, auto count) {
      gradient.narrow(0, position, count).add_(rows.narrow(0, row, count));
    });
  }

  void norm_forward(const at::Tensor& x, const NormWeights& w, const at::Tensor& y,
                    const at::Tensor& stats) const override {
    at::Tensor unit = wide_copy(x, stats);
    if (centered(w)) {
      at::Tensor mean = column(stats, 0);
      at::mean_out(mean, unit, 1, true);
      unit.sub_(mean);
    }
    at::Tensor reciprocal = reciprocal_column(stats);
    {
      const at::Tensor squares = unit * unit;
      at::mean_out(reciprocal, squares, 1, true);
    }
    reciprocal.add_(w.eps).rsqrt_();
    unit.mul_(reciprocal).mul_(wide(w.weight, stats));
    if (centered(w)) unit.add_(wide(w.bias, stats));
    y.copy_(unit);
  }

  void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& stats,
                     const NormWeights& w, const at::Tensor& dx, bool add) const override {
    const at::Tensor unit = normalized(x, stats, w);
    const at::Tensor gradient = wide_copy(dy, stats);
    at::Tensor product = gradient * unit;
    w.weight_gradient.add_(product.sum(0));
    if (centered(w)) w.bias_gradient.add_(gradient.sum(0));
    gradient.mul_(wide(w.weight, stats));
    at::mul_out(product, gradient, unit);
    unit.mul_(product.mean(1, true));
    if (centered(w)) gradient.sub_(gradient.mean(1, true));
    gradient.sub_(unit).mul_(reciprocal_column(stats));
    if (add) gradient.add_(product.copy_(dx));
    dx.copy_(gradient);
  }

  void bias_backward(const at::Tensor& dy, const at::Tensor& gradient) const override {
    gradient.add_(wide(dy, gradient).sum(0));
  }

  void accumulate(const at::Tensor& gradient, const at::Tensor& addend) const override {
    gradient.add_(wide(addend, gradient));
  }

  void activation_forward(Activation kind, const at::Tensor& pre,
                          const at::Tensor& act) const override {
    activate(kind, pre, act);
  }

  void activation_backward(Activation kind, const at::Tensor& pre,
                           const at::Tensor& d_act) const override {
    differentiate(kind, pre, d_act);
  }

  void gated_forward(Activation kind, const at::Tensor& gate_up,
                     const at::Tensor& act) const override {
    const std::int64_t ffn = act.size(1);
    activate(kind, gate_up.narrow(1, 0, ffn), act);
    act.mul_(gate_up.narrow(1, ffn, ffn));
  }

  void gated_backward(Activation kind, const at::Tensor& gate_up,
                      const at::Tensor& d_act) const override {
    const std::int64_t ffn = d_act.size(1);
    const at::Tensor gate = gate_up.narrow(1, 0, ffn), up = gate_up.narrow(1, ffn, ffn);
    const at::Tensor d_up = at::empty_like(d_act);
    activate(kind, gate, d_up);
    d_up.mul_(d_act);
    d_act.mul_(up);
    differentiate(kind, gate, d_act);
    gate.copy_(d_act);
    up.copy_(d_up);
  }

  void rotate(const at::Tensor& rows, std::int64_t heads, const RotaryTables& tables,
              bool inverse) const override {
    const std::int64_t seq = tables.cos.size(0), half = tables.cos.size(1);
    const at::Tensor pairs = rows.narrow(1, 0, heads * 2 * half).view({-1, seq, heads, 2, half});
    const at::Tensor cos = tables.cos.unsqueeze(1), sin = tables.sin.unsqueeze(1);
    const double sign = inverse ? -1 : 1;
    const at::Tensor low = wide_copy(pairs.select(3, 0), tables.cos);
    const at::Tensor high = wide_copy(pairs.select(3, 1), tables.cos);
    at::Tensor rotated = at::mul(low, cos);
    rotated.addcmul_(high, sin, -sign);
    pairs.select(3, 0).copy_(rotated);
    at::mul_out(rotated, high, cos);
    rotated.addcmul_(low, sin, sign);
    pairs.select(3, 1).copy_(rotated);
  }

  double cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                       double scale) const override {
    const at::Tensor index = targets.unsqueeze(1);
    const at::Tensor of_target = logits.gather(1, index);
    const at::Tensor largest = logits.amax(1, true);
    logits.sub_(largest).exp_();
    const at::Tensor total = logits.sum(1, true);
    logits.div_(total);
    logits.scatter_add_(1, index, at::full_like(of_target, -1.0));
    logits.mul_(scale);
    return total.log().add_(largest).sub_(of_target).sum(at::kDouble).item<double>();
  }

  void largest_logits(const at::Tensor& logits, const VocabShare& vocab,
                      const at::Tensor& largest) const override {
    if (vocab.valid == 0) {
      largest.fill_(-std::numeric_limits<double>::infinity());
      return;
    }
    at::Tensor out = largest;
    at::amax_out(out, logits.narrow(1, 0, vocab.valid), 1);
  }

  void exponentials(const at::Tensor& logits, const at::Tensor& targets, const VocabShare& vocab,
                    const at::Tensor& largest, const at::Tensor& sums) const override {
    const LocalRows local(targets, vocab);
    const at::Tensor valid = logits.narrow(1, 0, vocab.valid);
    logits.sub_(largest.unsqueeze(1));
    at::Tensor total = sums.select(0, 0), of_target = sums.select(0, 1);
    of_target.copy_(logits.gather(1, local.index.unsqueeze(1)).squeeze_(1));
    if (local.outside.defined()) of_target.masked_fill_(local.outside.squeeze(1), 0);
    valid.exp_();
    at::sum_out(total, valid, 1);
  }

  double shared_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              const VocabShare& vocab, const at::Tensor& sums,
                              double scale) const override {
    const LocalRows local(targets, vocab);
    logits.narrow(1, 0, vocab.valid).div_(sums.select(0, 0).unsqueeze(1));
    logits.narrow(1, vocab.valid, logits.size(1) - vocab.valid).zero_();
    at::Tensor ones = at::full({targets.size(0), 1}, -1.0, logits.options());
    if (local.outside.defined()) ones.masked_fill_(local.outside, 0);
    logits.scatter_add_(1, local.index.unsqueeze(1), ones);
    logits.mul_(scale);
    return sums.select(0, 0).log().sub_(sums.select(0, 1)).sum(at::kDouble).item<double>();
  }

 private:
  static void activate(Activation kind, const at::Tensor& pre, at::Tensor act) {
    if (kind == Activation::silu) {
      at::silu_out(act, pre);
    } else {
      at::gelu_out(act, pre, "tanh");
    }
  }

  /// gradient ×= the activation's derivative at `pre`.
  static void differentiate(Activation kind, const at::Tensor& pre, at::Tensor gradient) {
    if (kind == Activation::silu) {
      at::silu_backward_out(gradient, gradient, pre);
    } else {
      at::gelu_backward_out(gradient, gradient, pre, "tanh");
    }
  }
};

}  // namespace

const Kernels& composed_kernels() {
  static const ComposedKernels instance;
  return instance;
}

}  // namespace planwright::worker
