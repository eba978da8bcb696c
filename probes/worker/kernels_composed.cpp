#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "estimator/spec/loss_chunks.h"
#include "probes/worker/device_memory.h"
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

/// One statistic for each row of x, or each head of its rows.
at::Tensor column(const at::Tensor& stats, std::int64_t which, const at::Tensor& x) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = 1;
  return stats.select(0, which).view(sizes);
}

at::Tensor reciprocal_column(const at::Tensor& stats, const at::Tensor& x) {
  return column(stats, stats.size(0) - 1, x);
}

/// Over rows and heads.
at::Tensor sum_of_rows(const at::Tensor& x) { return x.view({-1, x.size(-1)}).sum(0); }

/// (x - mean) / deviation, wide.
at::Tensor normalized(const at::Tensor& x, const at::Tensor& stats, const NormWeights& w) {
  at::Tensor unit = wide_copy(x, stats);
  if (centered(w)) unit.sub_(column(stats, 0, x));
  return unit.mul_(reciprocal_column(stats, x));
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

enum class Write { nothing, back };

bool is_copy(const at::Tensor& rows, const at::Tensor& logits) {
  return rows.scalar_type() != logits.scalar_type();
}

/// Calls body(rows, first) for all rows at once; where they are narrow, for a wide copy of some at
/// a time, which can be written back.
template <class Body>
void over_wide_rows(const at::Tensor& logits, Write write, const Body& body) {
  const at::ScalarType type = accumulation_type(logits.scalar_type());
  if (type == logits.scalar_type()) return body(logits, std::int64_t{0});
  for (std::int64_t first = 0; first < logits.size(0); first += kFusedRows) {
    const at::Tensor rows = logits.narrow(0, first, std::min(kFusedRows, logits.size(0) - first));
    const at::Tensor copy = [&] {
      const AccountScope account(Account::logits);
      return at::empty(rows.sizes(), rows.options().dtype(type));
    }();
    copy.copy_(rows);
    body(copy, first);
    if (write == Write::back) rows.copy_(copy);
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
      at::Tensor mean = column(stats, 0, x);
      at::mean_out(mean, unit, -1, true);
      unit.sub_(mean);
    }
    at::Tensor reciprocal = reciprocal_column(stats, x);
    {
      const at::Tensor squares = unit * unit;
      at::mean_out(reciprocal, squares, -1, true);
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
    if (w.trained) {
      w.weight_gradient.add_(sum_of_rows(product));
      if (centered(w)) w.bias_gradient.add_(sum_of_rows(gradient));
    }
    gradient.mul_(wide(w.weight, stats));
    at::mul_out(product, gradient, unit);
    unit.mul_(product.mean(-1, true));
    if (centered(w)) gradient.sub_(gradient.mean(-1, true));
    gradient.sub_(unit).mul_(reciprocal_column(stats, x));
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

  void causal_softmax(const at::Tensor& scores, std::int64_t window, double scale) const override {
    const std::int64_t seq = scores.size(1);
    const at::Tensor scaled = scores.clone();
    scaled.mul_(scale);
    const at::Tensor outside = at::ones({seq, seq}, scores.options().dtype(at::kBool));
    outside.triu_(1);
    if (window > 0 && window < seq) outside.logical_or_(at::ones_like(outside).tril_(-window));
    scaled.view({-1, seq, seq}).masked_fill_(outside, -std::numeric_limits<double>::infinity());
    at::Tensor weights = scores;
    at::_softmax_out(weights, scaled, 1, false);
  }

  void softmax_backward(const at::Tensor& weights, const at::Tensor& gradient,
                        double scale) const override {
    gradient.mul_(weights);
    gradient.addcmul_(weights, gradient.sum(1, true), -1);
    gradient.mul_(scale);
  }

  double cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                       double scale) const override {
    double total = 0;
    over_wide_rows(logits, Write::back, [&](const at::Tensor& rows, auto first) {
      const at::Tensor index = targets.narrow(0, first, rows.size(0)).unsqueeze(1);
      const at::Tensor of_target = rows.gather(1, index);
      const at::Tensor largest = rows.amax(1, true);
      rows.sub_(largest).exp_();
      const at::Tensor sum = rows.sum(1, true);
      rows.div_(sum);
      rows.scatter_add_(1, index, at::full_like(of_target, -1.0));
      rows.mul_(scale);
      total += sum.log().add_(largest).sub_(of_target).sum(at::kDouble).item<double>();
    });
    return total;
  }

  void largest_logits(const at::Tensor& logits, const VocabShare& vocab,
                      const at::Tensor& largest) const override {
    if (vocab.valid == 0) {
      largest.fill_(-std::numeric_limits<double>::infinity());
      return;
    }
    over_wide_rows(logits, Write::nothing, [&](const at::Tensor& rows, auto first) {
      at::Tensor out = largest.narrow(0, first, rows.size(0));
      at::amax_out(out, rows.narrow(1, 0, vocab.valid), 1);
    });
  }

  void sum_exponentials(const at::Tensor& logits, const at::Tensor& targets,
                        const VocabShare& vocab, const at::Tensor& largest,
                        const at::Tensor& sums) const override {
    over_wide_rows(logits, Write::nothing, [&](const at::Tensor& rows, auto first) {
      const auto here = [&](const at::Tensor& of_all) {
        return of_all.narrow(0, first, rows.size(0));
      };
      const LocalRows local(here(targets), vocab);
      const at::Tensor valid = rows.narrow(1, 0, vocab.valid);
      rows.sub_(here(largest).unsqueeze(1));
      at::Tensor total = here(sums.select(0, 0)), of_target = here(sums.select(0, 1));
      of_target.copy_(rows.gather(1, local.index.unsqueeze(1)).squeeze_(1));
      if (local.outside.defined()) of_target.masked_fill_(local.outside.squeeze(1), 0);
      valid.exp_();
      at::sum_out(total, valid, 1);
    });
  }

  double shared_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              const VocabShare& vocab, const at::Tensor& largest,
                              const at::Tensor& sums, double scale) const override {
    double sum = 0;
    over_wide_rows(logits, Write::back, [&](const at::Tensor& rows, auto first) {
      const auto here = [&](const at::Tensor& of_all) {
        return of_all.narrow(0, first, rows.size(0));
      };
      const LocalRows local(here(targets), vocab);
      const at::Tensor valid = rows.narrow(1, 0, vocab.valid);
      const at::Tensor total = here(sums.select(0, 0)), of_target = here(sums.select(0, 1));
      if (is_copy(rows, logits)) valid.sub_(here(largest).unsqueeze(1)).exp_();
      valid.div_(total.unsqueeze(1));
      rows.narrow(1, vocab.valid, rows.size(1) - vocab.valid).zero_();
      at::Tensor ones = at::full({rows.size(0), 1}, -1.0, rows.options());
      if (local.outside.defined()) ones.masked_fill_(local.outside, 0);
      rows.scatter_add_(1, local.index.unsqueeze(1), ones);
      rows.mul_(scale);
      sum += total.log().sub_(of_target).sum(at::kDouble).item<double>();
    });
    return sum;
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
