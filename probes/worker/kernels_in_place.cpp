#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <type_traits>

#include "probes/worker/kernels.h"
#include "probes/worker/row_loops.h"

namespace planwright::worker {
namespace {

/// Elements that make a thread worth waking.
constexpr std::int64_t kGrainElements = 32768;

std::int64_t rows_per_grain(std::int64_t width) {
  return std::max<std::int64_t>(1, kGrainElements / std::max<std::int64_t>(1, width));
}

/// Calls body with a value of the storage type.
template <class Body>
void dispatch(const at::Tensor& tensor, const Body& body) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, tensor.scalar_type(),
                                  "kernels_in_place", [&] { body(scalar_t{}); });
}

/// Calls body with a value of the gradient's type, which is T or what T is computed in.
template <class T, class Body>
void dispatch_gradient(const at::Tensor& gradient, const Body& body) {
  if (gradient.scalar_type() == c10::CppTypeToScalarType<T>::value) {
    body(T{});
  } else {
    TORCH_CHECK(gradient.scalar_type() == c10::CppTypeToScalarType<Accumulation<T>>::value,
                "gradients of another type than activations and sums");
    body(Accumulation<T>{});
  }
}

template <class Body>
void dispatch_kind(Activation kind, const Body& body) {
  if (kind == Activation::silu) {
    body(static_cast<row_loops::Silu*>(nullptr));
  } else {
    body(static_cast<row_loops::GeluTanh*>(nullptr));
  }
}

template <class T>
T* data(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr<T>() : nullptr;
}

/// Sums that each thread makes of its rows: [thread, width], zeroed, in the accumulation type of T.
template <class T>
class PartialSums {
 public:
  using A = Accumulation<T>;
  PartialSums(std::int64_t width, const at::Tensor& like)
      : sums_(at::empty({at::get_num_threads(), width},
                        like.options().dtype(c10::CppTypeToScalarType<A>::value))) {
    sums_.zero_();
  }

  A* of_this_thread() const { return row(at::get_thread_num()); }

  /// total += the sums of columns [begin, begin + numel of total), threads in order. The first
  /// thread's become the sums of all, so that a narrow total is rounded once.
  void add_to(const at::Tensor& total, std::int64_t begin) const {
    dispatch_gradient<T>(total, [&]<class G>(G) {
      G* to = data<G>(total);
      at::parallel_for(0, total.numel(), kGrainElements, [&](std::int64_t from, std::int64_t end) {
        A* sum = row(0) + begin + from;
        for (std::int64_t thread = 1; thread < sums_.size(0); ++thread) {
          row_loops::accumulate(row(thread) + begin + from, end - from, sum);
        }
        row_loops::accumulate(sum, end - from, to + from);
      });
    });
  }

 private:
  A* row(std::int64_t thread) const { return data<A>(sums_) + thread * sums_.size(1); }

  at::Tensor sums_;
};

/// Calls body(begin, end) on stretches of [0, n).
template <class Body>
void over_elements(std::int64_t n, const Body& body) {
  at::parallel_for(0, n, kGrainElements, body);
}

/// Calls body(row) for each of `rows` rows of `width` elements.
template <class Body>
void over_rows(std::int64_t rows, std::int64_t width, const Body& body) {
  at::parallel_for(0, rows, rows_per_grain(width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}
template <class Body>
void over_rows(const at::Tensor& tensor, const Body& body) {
  over_rows(tensor.size(0), tensor.size(1), body);
}

/// What is normed together, one after the other: rows, or the heads of rows.
template <class T>
class NormRows {
 public:
  explicit NormRows(const at::Tensor& tensor)
      : begin_(data<T>(tensor)),
        heads_(tensor.dim() == 3 ? tensor.size(1) : 1),
        row_stride_(tensor.stride(0)),
        head_stride_(tensor.dim() == 3 ? tensor.stride(1) : 0) {}

  T* operator[](std::int64_t i) const {
    return begin_ + i / heads_ * row_stride_ + i % heads_ * head_stride_;
  }

 private:
  T* begin_;
  std::int64_t heads_, row_stride_, head_stride_;
};

template <class T, bool kCentered>
void norm_rows(const at::Tensor& x, const NormWeights& w, const at::Tensor& y,
               const at::Tensor& stats) {
  using A = Accumulation<T>;
  const std::int64_t width = x.size(-1), rows = stats.size(1);
  const NormRows<T> from(x), to(y);
  A* mean = data<A>(stats);
  A* reciprocal = mean + (kCentered ? rows : 0);
  over_rows(rows, width, [&](std::int64_t row) {
    row_loops::norm<T, kCentered>(from[row], data<T>(w.weight), data<T>(w.bias), A(w.eps), width,
                                  to[row], mean + row, reciprocal + row);
  });
}

template <class T, bool kCentered>
void norm_backward_rows(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& stats,
                        const NormWeights& w, const at::Tensor& dx, bool add) {
  using A = Accumulation<T>;
  const std::int64_t width = x.size(-1), rows = stats.size(1);
  std::optional<PartialSums<T>> sums;
  if (w.trained) sums.emplace(kCentered ? 2 * width : width, x);
  const auto backward = w.trained ? row_loops::norm_backward<T, kCentered, true>
                                  : row_loops::norm_backward<T, kCentered, false>;
  const NormRows<T> gradient(dy), from(x), to(dx);
  const A* mean = data<A>(stats);
  const A* reciprocal = mean + (kCentered ? rows : 0);
  over_rows(rows, width, [&](std::int64_t row) {
    A* mine = sums ? sums->of_this_thread() : nullptr;
    backward(gradient[row], from[row], data<T>(w.weight), kCentered ? mean[row] : A(0),
             reciprocal[row], width, to[row], add, mine, sums ? mine + width : nullptr);
  });
  if (!sums) return;
  sums->add_to(w.weight_gradient, 0);
  if constexpr (kCentered) sums->add_to(w.bias_gradient, width);
}

/// gradient[place(row)] += dy[row] for every row whose place is not negative. Threads share out the
/// columns, so that rows of one place never meet and the order is fixed.
template <class Place>
void add_rows(const at::Tensor& dy, const at::Tensor& gradient, const Place& place) {
  const std::int64_t width = dy.size(1), rows = dy.size(0);
  const std::int64_t grain = std::max<std::int64_t>(1, kGrainElements / rows);
  dispatch(dy, [&]<class T>(T) {
    dispatch_gradient<T>(gradient, [&]<class G>(G) {
      at::parallel_for(0, width, grain, [&](std::int64_t from, std::int64_t end) {
        for (std::int64_t row = 0; row < rows; ++row) {
          const std::int64_t to = place(row);
          if (to < 0) continue;
          row_loops::accumulate(data<T>(dy) + row * width + from, end - from,
                                data<G>(gradient) + to * width + from);
        }
      });
    });
  });
}

class InPlaceKernels : public Kernels {
 public:
  void embed(const at::Tensor& ids, const at::Tensor& tokens, const VocabShare& vocab,
             const at::Tensor& out) const override {
    dispatch(out, [&]<class T>(T) {
      const std::int64_t width = out.size(1);
      over_rows(out, [&](std::int64_t row) {
        const std::int64_t token = vocab.place(data<std::int64_t>(ids)[row]);
        T* to = data<T>(out) + row * width;
        if (token < 0) {
          std::fill(to, to + width, T(0));
        } else {
          std::copy_n(data<T>(tokens) + token * width, width, to);
        }
      });
    });
  }

  void embed_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& gradient,
                      const VocabShare& vocab) const override {
    add_rows(dy, gradient,
             [&](std::int64_t row) { return vocab.place(data<std::int64_t>(ids)[row]); });
  }

  void add_positions(const at::Tensor& positions, std::int64_t first_row, std::int64_t seq,
                     const at::Tensor& out) const override {
    dispatch(out, [&]<class T>(T) {
      const std::int64_t width = out.size(1);
      over_rows(out, [&](std::int64_t row) {
        T* to = data<T>(out) + row * width;
        row_loops::sum(to, data<T>(positions) + (first_row + row) % seq * width, width, to);
      });
    });
  }

  void positions_backward(const at::Tensor& dy, std::int64_t first_row, std::int64_t seq,
                          const at::Tensor& gradient) const override {
    add_rows(dy, gradient, [&](std::int64_t row) { return (first_row + row) % seq; });
  }

  void norm_forward(const at::Tensor& x, const NormWeights& w, const at::Tensor& y,
                    const at::Tensor& stats) const override {
    dispatch(x, [&]<class T>(T) {
      if (w.kind == NormKind::layer_norm) {
        norm_rows<T, true>(x, w, y, stats);
      } else {
        norm_rows<T, false>(x, w, y, stats);
      }
    });
  }

  void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& stats,
                     const NormWeights& w, const at::Tensor& dx, bool add) const override {
    dispatch(x, [&]<class T>(T) {
      if (w.kind == NormKind::layer_norm) {
        norm_backward_rows<T, true>(dy, x, stats, w, dx, add);
      } else {
        norm_backward_rows<T, false>(dy, x, stats, w, dx, add);
      }
    });
  }

  void bias_backward(const at::Tensor& dy, const at::Tensor& gradient) const override {
    dispatch(dy, [&]<class T>(T) {
      const PartialSums<T> sums(dy.size(1), dy);
      over_rows(dy, [&](std::int64_t row) {
        row_loops::accumulate(data<T>(dy) + row * dy.size(1), dy.size(1), sums.of_this_thread());
      });
      sums.add_to(gradient, 0);
    });
  }

  void accumulate(const at::Tensor& gradient, const at::Tensor& addend) const override {
    dispatch(addend, [&]<class T>(T) {
      dispatch_gradient<T>(gradient, [&]<class G>(G) {
        over_elements(addend.numel(), [&](std::int64_t from, std::int64_t end) {
          row_loops::accumulate(data<T>(addend) + from, end - from, data<G>(gradient) + from);
        });
      });
    });
  }

  void activation_forward(Activation kind, const at::Tensor& pre,
                          const at::Tensor& act) const override {
    dispatch(pre, [&]<class T>(T) {
      dispatch_kind(kind, [&]<class Kind>(Kind*) {
        over_elements(pre.numel(), [&](std::int64_t from, std::int64_t end) {
          row_loops::activation<T, Kind>(data<T>(pre) + from, end - from, data<T>(act) + from);
        });
      });
    });
  }

  void activation_backward(Activation kind, const at::Tensor& pre,
                           const at::Tensor& d_act) const override {
    dispatch(pre, [&]<class T>(T) {
      dispatch_kind(kind, [&]<class Kind>(Kind*) {
        over_elements(pre.numel(), [&](std::int64_t from, std::int64_t end) {
          row_loops::activation_backward<T, Kind>(data<T>(pre) + from, end - from,
                                                  data<T>(d_act) + from);
        });
      });
    });
  }

  void gated_forward(Activation kind, const at::Tensor& gate_up,
                     const at::Tensor& act) const override {
    const std::int64_t ffn = act.size(1);
    dispatch(act, [&]<class T>(T) {
      dispatch_kind(kind, [&]<class Kind>(Kind*) {
        over_rows(act, [&](std::int64_t row) {
          const T* gate = data<T>(gate_up) + row * 2 * ffn;
          row_loops::gated<T, Kind>(gate, gate + ffn, ffn, data<T>(act) + row * ffn);
        });
      });
    });
  }

  void gated_backward(Activation kind, const at::Tensor& gate_up,
                      const at::Tensor& d_act) const override {
    const std::int64_t ffn = d_act.size(1);
    dispatch(d_act, [&]<class T>(T) {
      dispatch_kind(kind, [&]<class Kind>(Kind*) {
        over_rows(d_act, [&](std::int64_t row) {
          T* gate = data<T>(gate_up) + row * 2 * ffn;
          row_loops::gated_backward<T, Kind>(gate, gate + ffn, data<T>(d_act) + row * ffn, ffn);
        });
      });
    });
  }

  void rotate(const at::Tensor& rows, std::int64_t heads, const RotaryTables& tables,
              bool inverse) const override {
    const std::int64_t seq = tables.cos.size(0), half = tables.cos.size(1);
    dispatch(rows, [&]<class T>(T) {
      using A = Accumulation<T>;
      over_rows(rows, [&](std::int64_t row) {
        const A* cos = data<A>(tables.cos) + row % seq * half;
        const A* sin = data<A>(tables.sin) + row % seq * half;
        T* head = data<T>(rows) + row * rows.size(1);
        for (std::int64_t i = 0; i < heads; ++i, head += 2 * half) {
          row_loops::rotate(head, head + half, cos, sin, A(inverse ? -1 : 1), half);
        }
      });
    });
  }

  void causal_softmax(const at::Tensor& scores, std::int64_t window, double scale) const override {
    dispatch(scores, [&]<class T>(T) {
      const std::int64_t seq = scores.size(1);
      over_rows(scores, [&](std::int64_t row) {
        const std::int64_t end = row % seq + 1;
        const std::int64_t begin = window > 0 ? std::max<std::int64_t>(0, end - window) : 0;
        row_loops::softmax(data<T>(scores) + row * seq, begin, end, seq, Accumulation<T>(scale));
      });
    });
  }

  void softmax_backward(const at::Tensor& weights, const at::Tensor& gradient,
                        double scale) const override {
    dispatch(weights, [&]<class T>(T) {
      const std::int64_t seq = weights.size(1);
      over_rows(weights, [&](std::int64_t row) {
        row_loops::softmax_backward(data<T>(weights) + row * seq, data<T>(gradient) + row * seq,
                                    seq, Accumulation<T>(scale));
      });
    });
  }

  double cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                       double scale) const override {
    double total = 0;
    dispatch(logits, [&]<class T>(T) {
      const std::int64_t width = logits.size(1);
      total = at::parallel_reduce(
          0, logits.size(0), rows_per_grain(width), 0.0,
          [&](std::int64_t begin, std::int64_t end, double sum) {
            for (std::int64_t row = begin; row < end; ++row) {
              sum += row_loops::cross_entropy(data<T>(logits) + row * width, width,
                                              data<std::int64_t>(targets)[row],
                                              Accumulation<T>(scale));
            }
            return sum;
          },
          std::plus<>());
    });
    return total;
  }

  void largest_logits(const at::Tensor& logits, const VocabShare& vocab,
                      const at::Tensor& largest) const override {
    dispatch(logits, [&]<class T>(T) {
      over_rows(logits, [&](std::int64_t row) {
        const T* from = data<T>(logits) + row * logits.size(1);
        data<Accumulation<T>>(largest)[row] = row_loops::largest(from, vocab.valid);
      });
    });
  }

  void sum_exponentials(const at::Tensor& logits, const at::Tensor& targets,
                        const VocabShare& vocab, const at::Tensor& largest,
                        const at::Tensor& sums) const override {
    dispatch(logits, [&]<class T>(T) {
      using A = Accumulation<T>;
      A* const of_row = data<A>(sums);
      A* const of_target = of_row + logits.size(0);
      over_rows(logits, [&](std::int64_t row) {
        T* from = data<T>(logits) + row * logits.size(1);
        const A most = data<A>(largest)[row];
        const std::int64_t target = vocab.place(data<std::int64_t>(targets)[row]);
        of_target[row] = target >= 0 ? wide(from[target]) - most : A(0);
        if constexpr (std::is_same_v<T, A>) {
          of_row[row] = row_loops::exponentials(from, vocab.valid, most);
        } else {
          of_row[row] = row_loops::sum_exponentials(from, vocab.valid, A(1), most);
        }
      });
    });
  }

  double shared_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              const VocabShare& vocab, const at::Tensor& largest,
                              const at::Tensor& sums, double scale) const override {
    double total = 0;
    dispatch(logits, [&]<class T>(T) {
      using A = Accumulation<T>;
      const A* const of_row = data<A>(sums);
      const A* const of_target = of_row + logits.size(0);
      over_rows(logits, [&](std::int64_t row) {
        T* to = data<T>(logits) + row * logits.size(1);
        if constexpr (std::is_same_v<T, A>) {
          row_loops::scale(to, vocab.valid, A(scale) / of_row[row]);
        } else {
          row_loops::exponentials(to, vocab.valid, A(1), data<A>(largest)[row],
                                  A(scale) / of_row[row]);
        }
        std::fill(to + vocab.valid, to + logits.size(1), narrow<T>(A(0)));
        const std::int64_t target = vocab.place(data<std::int64_t>(targets)[row]);
        if (target >= 0) to[target] = narrow<T>(wide(to[target]) - A(scale));
      });
      for (std::int64_t row = 0; row < logits.size(0); ++row) {
        total += std::log(double(of_row[row])) - double(of_target[row]);
      }
    });
    return total;
  }
};

}  // namespace

const Kernels& in_place_kernels() {
  static const InPlaceKernels instance;
  return instance;
}

}  // namespace planwright::worker
