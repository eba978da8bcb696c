#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <functional>

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

/// Calls body(row) for each of the tensor's rows.
template <class Body>
void over_rows(const at::Tensor& tensor, const Body& body) {
  at::parallel_for(0, tensor.size(0), rows_per_grain(tensor.size(1)),
                   [&](std::int64_t begin, std::int64_t end) {
                     for (std::int64_t row = begin; row < end; ++row) body(row);
                   });
}

template <class T, bool kCentered>
void norm_rows(const at::Tensor& x, const NormWeights& w, const at::Tensor& y,
               const at::Tensor& stats) {
  using A = Accumulation<T>;
  const std::int64_t width = x.size(1), rows = x.size(0);
  A* reciprocal = data<A>(stats) + (kCentered ? rows : 0);
  over_rows(x, [&](std::int64_t row) {
    row_loops::norm<T, kCentered>(data<T>(x) + row * width, data<T>(w.weight), data<T>(w.bias),
                                  A(w.eps), width, data<T>(y) + row * width, data<A>(stats) + row,
                                  reciprocal + row);
  });
}

template <class T, bool kCentered>
void norm_backward_rows(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& stats,
                        const NormWeights& w, const at::Tensor& dx, bool add) {
  using A = Accumulation<T>;
  const std::int64_t width = x.size(1), rows = x.size(0);
  const PartialSums<T> sums(kCentered ? 2 * width : width, x);
  const A* mean = data<A>(stats);
  const A* reciprocal = mean + (kCentered ? rows : 0);
  over_rows(x, [&](std::int64_t row) {
    const std::int64_t at = row * width;
    A* mine = sums.of_this_thread();
    row_loops::norm_backward<T, kCentered>(data<T>(dy) + at, data<T>(x) + at, data<T>(w.weight),
                                           kCentered ? mean[row] : A(0), reciprocal[row], width,
                                           data<T>(dx) + at, add, mine, mine + width);
  });
  sums.add_to(w.weight_gradient, 0);
  if constexpr (kCentered) sums.add_to(w.bias_gradient, width);
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
        const std::int64_t token = data<std::int64_t>(ids)[row] - vocab.first;
        T* to = data<T>(out) + row * width;
        if (token < 0 || token >= vocab.valid) {
          std::fill(to, to + width, T(0));
        } else {
          std::copy_n(data<T>(tokens) + token * width, width, to);
        }
      });
    });
  }

  void embed_backward(const at::Tensor& ids, const at::Tensor& dy, const at::Tensor& gradient,
                      const VocabShare& vocab) const override {
    add_rows(dy, gradient, [&](std::int64_t row) {
      const std::int64_t token = data<std::int64_t>(ids)[row] - vocab.first;
      return token < vocab.valid ? token : -1;
    });
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

  double cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                       double scale) const override {
    double total = 0;
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "cross_entropy", [&] {
      const std::int64_t width = logits.size(1);
      total = at::parallel_reduce(
          0, logits.size(0), rows_per_grain(width), 0.0,
          [&](std::int64_t begin, std::int64_t end, double sum) {
            for (std::int64_t row = begin; row < end; ++row) {
              sum += row_loops::cross_entropy(data<scalar_t>(logits) + row * width, width,
                                              data<std::int64_t>(targets)[row], scalar_t(scale));
            }
            return sum;
          },
          std::plus<>());
    });
    return total;
  }

  void largest_logits(const at::Tensor& logits, const VocabShare& vocab,
                      const at::Tensor& largest) const override {
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "largest_logits", [&] {
      over_rows(logits, [&](std::int64_t row) {
        const scalar_t* from = data<scalar_t>(logits) + row * logits.size(1);
        data<scalar_t>(largest)[row] = row_loops::largest(from, vocab.valid);
      });
    });
  }

  void exponentials(const at::Tensor& logits, const at::Tensor& targets, const VocabShare& vocab,
                    const at::Tensor& largest, const at::Tensor& sums) const override {
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "exponentials", [&] {
      scalar_t* const of_row = data<scalar_t>(sums);
      scalar_t* const of_target = of_row + logits.size(0);
      over_rows(logits, [&](std::int64_t row) {
        scalar_t* from = data<scalar_t>(logits) + row * logits.size(1);
        const scalar_t most = data<scalar_t>(largest)[row];
        const std::int64_t target = data<std::int64_t>(targets)[row] - vocab.first;
        const bool mine = target >= 0 && target < vocab.valid;
        of_target[row] = mine ? from[target] - most : scalar_t(0);
        of_row[row] = row_loops::exponentials(from, vocab.valid, most);
      });
    });
  }

  double shared_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                              const VocabShare& vocab, const at::Tensor& sums,
                              double scale) const override {
    double total = 0;
    AT_DISPATCH_FLOATING_TYPES(logits.scalar_type(), "shared_cross_entropy", [&] {
      const scalar_t* const of_row = data<scalar_t>(sums);
      const scalar_t* const of_target = of_row + logits.size(0);
      over_rows(logits, [&](std::int64_t row) {
        scalar_t* to = data<scalar_t>(logits) + row * logits.size(1);
        row_loops::scale(to, vocab.valid, scalar_t(scale) / of_row[row]);
        std::fill(to + vocab.valid, to + logits.size(1), scalar_t(0));
        const std::int64_t target = data<std::int64_t>(targets)[row] - vocab.first;
        if (target >= 0 && target < vocab.valid) to[target] -= scalar_t(scale);
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
