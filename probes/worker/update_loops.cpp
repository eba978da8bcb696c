#include "probes/worker/update_loops.h"

#include <algorithm>
#include <cmath>

namespace planwright::worker::update_loops {

// Source: Loshchilov, Hutter (2019), algorithm 2.
template <class W, class G, class S>
FOR_EACH_ISA void adamw(const AdamwStep& step, std::int64_t n, W* weight, const G* gradient,
                        S* moment1, S* moment2) {
  using A = Accumulation<W>;
  const A factor(step.factor), decay(step.decay), step_size(step.step_size);
  const A root(step.root_of_correction), epsilon(step.epsilon), beta1(step.beta1),
      beta2(step.beta2);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A g = wide(gradient[i]) * factor;
    const A m = beta1 * wide(moment1[i]) + (A(1) - beta1) * g;
    const A v = beta2 * wide(moment2[i]) + (A(1) - beta2) * g * g;
    moment1[i] = narrow<S>(m);
    moment2[i] = narrow<S>(v);
    weight[i] =
        narrow<W>(wide(weight[i]) * decay - step_size * m / (std::sqrt(v) / root + epsilon));
  }
}

template <class W, class G, class S>
FOR_EACH_ISA void sgd(const SgdStep& step, std::int64_t n, W* weight, const G* gradient,
                      S* moment) {
  using A = Accumulation<W>;
  const A factor(step.factor), rate(step.rate), momentum(step.momentum);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A m = momentum * wide(moment[i]) + wide(gradient[i]) * factor;
    moment[i] = narrow<S>(m);
    weight[i] = narrow<W>(wide(weight[i]) - rate * m);
  }
}

// Source: Chen et al. (2023), algorithm 2.
template <class W, class G, class S>
FOR_EACH_ISA void lion(const LionStep& step, std::int64_t n, W* weight, const G* gradient,
                       S* moment) {
  using A = Accumulation<W>;
  const A factor(step.factor), decay(step.decay), rate(step.rate), beta1(step.beta1),
      beta2(step.beta2);
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A g = wide(gradient[i]) * factor;
    const A m = wide(moment[i]);
    const A direction = beta1 * m + (A(1) - beta1) * g;
    const A sign = A(direction > A(0)) - A(direction < A(0));
    weight[i] = narrow<W>(wide(weight[i]) * decay - rate * sign);
    moment[i] = narrow<S>(beta2 * m + (A(1) - beta2) * g);
  }
}

template <class G, class S>
FOR_EACH_ISA void row_moment(const MomentStep& step, std::int64_t columns, const G* gradient,
                             S* moment) {
  using A = Accumulation<G>;
  const A factor(step.factor), keep(step.keep);
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < columns; ++i) {
    const A g = wide(gradient[i]) * factor;
    sum += g * g;
  }
  *moment = narrow<S>(keep * wide(*moment) + (A(1) - keep) * (sum / A(columns) + A(step.floor)));
}

template <class G, class S>
FOR_EACH_ISA void column_moments(const MomentStep& step, std::int64_t rows, std::int64_t stride,
                                 std::int64_t columns, const G* gradient, S* moments) {
  using A = Accumulation<G>;
  const A factor(step.factor), keep(step.keep), floor(step.floor);
  A sums[kColumnBlock] = {};
  for (std::int64_t row = 0; row < rows; ++row) {
#pragma omp simd
    for (std::int64_t i = 0; i < columns; ++i) {
      const A g = wide(gradient[row * stride + i]) * factor;
      sums[i] += g * g;
    }
  }
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const A mean = sums[i] / A(rows) + floor;
    moments[i] = narrow<S>(keep * wide(moments[i]) + (A(1) - keep) * mean);
  }
}

template <class G, class S>
FOR_EACH_ISA double update_squares(double scale, std::int64_t columns, const G* gradient,
                                   const S* moments) {
  using A = Accumulation<G>;
  const A factor(scale);
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < columns; ++i) {
    const A g = wide(gradient[i]) * factor;
    sum += g * g / wide(moments[i]);
  }
  return sum;
}

template <class W, class G, class S>
FOR_EACH_ISA void normalized_update(double scale, std::int64_t columns, W* weight,
                                    const G* gradient, const S* moments) {
  using A = Accumulation<W>;
  const A factor(scale);
#pragma omp simd
  for (std::int64_t i = 0; i < columns; ++i) {
    const A update = wide(gradient[i]) * factor / std::sqrt(A(wide(moments[i])));
    weight[i] = narrow<W>(wide(weight[i]) - update);
  }
}

template <class W>
FOR_EACH_ISA double squares(std::int64_t n, const W* values) {
  using A = Accumulation<W>;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < n; ++i) sum += wide(values[i]) * wide(values[i]);
  return sum;
}

#define INSTANTIATE_WEIGHT(W, G, S)                                                   \
  template void adamw<W, G, S>(const AdamwStep&, std::int64_t, W*, const G*, S*, S*); \
  template void sgd<W, G, S>(const SgdStep&, std::int64_t, W*, const G*, S*);         \
  template void lion<W, G, S>(const LionStep&, std::int64_t, W*, const G*, S*);       \
  template void normalized_update<W, G, S>(double, std::int64_t, W*, const G*, const S*);

#define INSTANTIATE_GRADIENT(G, S)                                                                \
  template void row_moment<G, S>(const MomentStep&, std::int64_t, const G*, S*);                  \
  template void column_moments<G, S>(const MomentStep&, std::int64_t, std::int64_t, std::int64_t, \
                                     const G*, S*);                                               \
  template double update_squares<G, S>(double, std::int64_t, const G*, const S*);

#define INSTANTIATE_NARROW(G, S)          \
  INSTANTIATE_WEIGHT(float, G, S)         \
  INSTANTIATE_WEIGHT(c10::BFloat16, G, S) \
  INSTANTIATE_GRADIENT(G, S)

INSTANTIATE_WEIGHT(double, double, double)
INSTANTIATE_GRADIENT(double, double)
INSTANTIATE_NARROW(float, float)
INSTANTIATE_NARROW(float, c10::BFloat16)
INSTANTIATE_NARROW(c10::BFloat16, float)
INSTANTIATE_NARROW(c10::BFloat16, c10::BFloat16)
INSTANTIATE_NARROW(c10::Half, float)
INSTANTIATE_NARROW(c10::Half, c10::BFloat16)
template double squares<double>(std::int64_t, const double*);
template double squares<float>(std::int64_t, const float*);
template double squares<c10::BFloat16>(std::int64_t, const c10::BFloat16*);

}  // namespace planwright::worker::update_loops
