#include "probes/worker/row_loops.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "probes/worker/counter_hash.h"

// glibc's vector versions, which its own headers declare only under -ffast-math. Error <= 4 ulp.
#pragma omp declare simd notinbranch
extern "C" double exp(double) noexcept;
#pragma omp declare simd notinbranch
extern "C" float expf(float) noexcept;

namespace planwright::worker::row_loops {
namespace {

inline double exponential(double x) { return ::exp(x); }
inline float exponential(float x) { return ::expf(x); }

template <class A>
inline A sigmoid(A x) {
  return A(1) / (A(1) + exponential(-x));
}

}  // namespace

// Both activations are x × sigmoid(argument(x)): gelu's (1 + tanh(u)) / 2 is sigmoid(2 u).
struct Silu {
  template <class A>
  static A argument(A x) {
    return x;
  }
  template <class A>
  static A slope(A) {
    return A(1);
  }
};

// u = sqrt(2 / pi) (x + 0.044715 x^3). Source: Hendrycks, Gimpel (2016), section 2.
struct GeluTanh {
  static constexpr double kTwoRootTwoOverPi = 1.5957691216057308;
  static constexpr double kCubic = 0.044715;
  template <class A>
  static A argument(A x) {
    return A(kTwoRootTwoOverPi) * x * (A(1) + A(kCubic) * x * x);
  }
  template <class A>
  static A slope(A x) {
    return A(kTwoRootTwoOverPi) * (A(1) + A(3 * kCubic) * x * x);
  }
};

namespace {

/// d/dx of x × sigmoid(argument(x)), given that sigmoid.
template <class Kind, class A>
inline A derivative(A x, A s) {
  return s + x * s * (A(1) - s) * Kind::slope(x);
}

}  // namespace

template <class T, bool kCentered>
FOR_EACH_ISA void norm(const T* x, const T* weight, const T* bias, Accumulation<T> eps,
                       std::int64_t width, T* y, Accumulation<T>* mean,
                       Accumulation<T>* reciprocal) {
  using A = Accumulation<T>;
  A center = 0;
  if constexpr (kCentered) {
#pragma omp simd reduction(+ : center)
    for (std::int64_t i = 0; i < width; ++i) center += wide(x[i]);
    center /= A(width);
    *mean = center;
  }
  A squares = 0;
#pragma omp simd reduction(+ : squares)
  for (std::int64_t i = 0; i < width; ++i) {
    const A d = wide(x[i]) - center;
    squares += d * d;
  }
  const A scale = A(1) / std::sqrt(squares / A(width) + eps);
  *reciprocal = scale;
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const A unit = (wide(x[i]) - center) * scale;
    y[i] = narrow<T>(kCentered ? unit * wide(weight[i]) + wide(bias[i]) : unit * wide(weight[i]));
  }
}

// With n = (x - mean) r and g = dy w: dx = r (g - [mean of g] - n mean(g n)).
template <class T, bool kCentered, bool kTrained>
FOR_EACH_ISA void norm_backward(const T* dy, const T* x, const T* weight, Accumulation<T> mean,
                                Accumulation<T> reciprocal, std::int64_t width, T* dx, bool add,
                                Accumulation<T>* d_weight, Accumulation<T>* d_bias) {
  using A = Accumulation<T>;
  A sum_g = 0, sum_gn = 0;
#pragma omp simd reduction(+ : sum_g, sum_gn)
  for (std::int64_t i = 0; i < width; ++i) {
    const A n = (wide(x[i]) - mean) * reciprocal;
    const A g = wide(dy[i]) * wide(weight[i]);
    if constexpr (kTrained) d_weight[i] += wide(dy[i]) * n;
    if constexpr (kTrained && kCentered) d_bias[i] += wide(dy[i]);
    if constexpr (kCentered) sum_g += g;
    sum_gn += g * n;
  }
  const A mean_g = sum_g / A(width), mean_gn = sum_gn / A(width);
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    const A n = (wide(x[i]) - mean) * reciprocal;
    const A gradient = reciprocal * (wide(dy[i]) * wide(weight[i]) - mean_g - n * mean_gn);
    dx[i] = narrow<T>(add ? wide(dx[i]) + gradient : gradient);
  }
}

template <class T>
FOR_EACH_ISA void sum(const T* a, const T* b, std::int64_t n, T* y) {
  if (b == nullptr) {
    std::copy(a, a + n, y);
    return;
  }
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) y[i] = narrow<T>(wide(a[i]) + wide(b[i]));
}

template <class T, class G>
FOR_EACH_ISA void accumulate(const T* addend, std::int64_t n, G* total) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) total[i] = narrow<G>(wide(total[i]) + wide(addend[i]));
}

template <class T, class Kind>
FOR_EACH_ISA void activation(const T* pre, std::int64_t n, T* act) {
  using A = Accumulation<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = wide(pre[i]);
    act[i] = narrow<T>(x * sigmoid(Kind::argument(x)));
  }
}

template <class T, class Kind>
FOR_EACH_ISA void activation_backward(const T* pre, std::int64_t n, T* d_act) {
  using A = Accumulation<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = wide(pre[i]);
    d_act[i] = narrow<T>(wide(d_act[i]) * derivative<Kind>(x, sigmoid(Kind::argument(x))));
  }
}

template <class T, class Kind>
FOR_EACH_ISA void gated(const T* gate, const T* up, std::int64_t n, T* act) {
  using A = Accumulation<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = wide(gate[i]);
    act[i] = narrow<T>(x * sigmoid(Kind::argument(x)) * wide(up[i]));
  }
}

template <class T, class Kind>
FOR_EACH_ISA void gated_backward(T* gate, T* up, const T* d_act, std::int64_t n) {
  using A = Accumulation<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A x = wide(gate[i]), d = wide(d_act[i]);
    const A s = sigmoid(Kind::argument(x));
    gate[i] = narrow<T>(d * wide(up[i]) * derivative<Kind>(x, s));
    up[i] = narrow<T>(d * x * s);
  }
}

template <class T>
FOR_EACH_ISA void rotate(T* low, T* high, const Accumulation<T>* cos, const Accumulation<T>* sin,
                         Accumulation<T> sign, std::int64_t n) {
  using A = Accumulation<T>;
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) {
    const A a = wide(low[i]), b = wide(high[i]), s = sign * sin[i];
    low[i] = narrow<T>(a * cos[i] - b * s);
    high[i] = narrow<T>(b * cos[i] + a * s);
  }
}

template <class T>
FOR_EACH_ISA Accumulation<T> largest(const T* row, std::int64_t width) {
  using A = Accumulation<T>;
  A most = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < width; ++i) most = std::max(most, wide(row[i]));
  return most;
}

template <class T>
FOR_EACH_ISA Accumulation<T> sum_exponentials(const T* row, std::int64_t width,
                                              Accumulation<T> factor, Accumulation<T> offset) {
  Accumulation<T> total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < width; ++i) total += exponential(factor * wide(row[i]) - offset);
  return total;
}

template <class T>
FOR_EACH_ISA void exponentials(T* row, std::int64_t width, Accumulation<T> factor,
                               Accumulation<T> offset, Accumulation<T> scale_by) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    row[i] = narrow<T>(scale_by * exponential(factor * wide(row[i]) - offset));
  }
}

template <class A>
FOR_EACH_ISA A exponentials(A* row, std::int64_t width, A offset) {
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < width; ++i) {
    row[i] = exponential(row[i] - offset);
    total += row[i];
  }
  return total;
}

template <class A>
FOR_EACH_ISA void scale(A* row, std::int64_t width, A factor) {
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) row[i] *= factor;
}

template <class T>
double cross_entropy(T* logits, std::int64_t width, std::int64_t target, Accumulation<T> scale_by) {
  using A = Accumulation<T>;
  const A of_target = wide(logits[target]);
  const A most = largest(logits, width);
  A total = 0;
  if constexpr (std::is_same_v<T, A>) {
    total = exponentials(logits, width, most);
    scale(logits, width, scale_by / total);
  } else {
    total = sum_exponentials(logits, width, A(1), most);
    exponentials(logits, width, A(1), most, scale_by / total);
  }
  logits[target] = narrow<T>(wide(logits[target]) - scale_by);
  return std::log(double(total)) + double(most) - double(of_target);
}

template <class T>
void softmax(T* row, std::int64_t begin, std::int64_t end, std::int64_t width,
             Accumulation<T> scale_by) {
  using A = Accumulation<T>;
  const A most = scale_by * largest(row + begin, end - begin);
  const A total = sum_exponentials(row + begin, end - begin, scale_by, most);
  std::fill(row, row + begin, narrow<T>(A(0)));
  exponentials(row + begin, end - begin, scale_by, most, A(1) / total);
  std::fill(row + end, row + width, narrow<T>(A(0)));
}

// With weights w: d score = scale w (dw - sum of w dw).
template <class T>
FOR_EACH_ISA void softmax_backward(const T* weights, T* gradient, std::int64_t width,
                                   Accumulation<T> scale_by) {
  using A = Accumulation<T>;
  A sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t i = 0; i < width; ++i) sum += wide(weights[i]) * wide(gradient[i]);
#pragma omp simd
  for (std::int64_t i = 0; i < width; ++i) {
    gradient[i] = narrow<T>(scale_by * wide(weights[i]) * (wide(gradient[i]) - sum));
  }
}

template <class T>
FOR_EACH_ISA void drop(const T* x, const T* residual, std::int64_t n, const DropMask& mask, T* y) {
  using A = Accumulation<T>;
  const auto least = static_cast<std::uint64_t>(mask.probability * 0x1p53);
  const A factor = A(1 / (1 - mask.probability));
  for (std::int64_t i = 0; i < n; ++i) {
    const std::uint64_t drawn =
        counter_hash(mask.stream, static_cast<std::uint64_t>(mask.first + i)) >> 11;
    const A kept = drawn < least ? A(0) : factor * wide(x[i]);
    y[i] = narrow<T>(residual == nullptr ? kept : wide(residual[i]) + kept);
  }
}

#define INSTANTIATE_KIND(T, Kind)                                         \
  template void activation<T, Kind>(const T*, std::int64_t, T*);          \
  template void activation_backward<T, Kind>(const T*, std::int64_t, T*); \
  template void gated<T, Kind>(const T*, const T*, std::int64_t, T*);     \
  template void gated_backward<T, Kind>(T*, T*, const T*, std::int64_t);

#define INSTANTIATE_NORM_BACKWARD(T, kCentered, kTrained)                                     \
  template void norm_backward<T, kCentered, kTrained>(                                        \
      const T*, const T*, const T*, Accumulation<T>, Accumulation<T>, std::int64_t, T*, bool, \
      Accumulation<T>*, Accumulation<T>*);

#define INSTANTIATE_NORM(T, kCentered)                                                          \
  template void norm<T, kCentered>(const T*, const T*, const T*, Accumulation<T>, std::int64_t, \
                                   T*, Accumulation<T>*, Accumulation<T>*);                     \
  INSTANTIATE_NORM_BACKWARD(T, kCentered, true)                                                 \
  INSTANTIATE_NORM_BACKWARD(T, kCentered, false)

#define INSTANTIATE(T)                                                                             \
  INSTANTIATE_NORM(T, true)                                                                        \
  INSTANTIATE_NORM(T, false)                                                                       \
  INSTANTIATE_KIND(T, Silu)                                                                        \
  INSTANTIATE_KIND(T, GeluTanh)                                                                    \
  template void sum<T>(const T*, const T*, std::int64_t, T*);                                      \
  template void rotate<T>(T*, T*, const Accumulation<T>*, const Accumulation<T>*, Accumulation<T>, \
                          std::int64_t);                                                           \
  template Accumulation<T> largest<T>(const T*, std::int64_t);                                     \
  template Accumulation<T> sum_exponentials<T>(const T*, std::int64_t, Accumulation<T>,            \
                                               Accumulation<T>);                                   \
  template void exponentials<T>(T*, std::int64_t, Accumulation<T>, Accumulation<T>,                \
                                Accumulation<T>);                                                  \
  template double cross_entropy<T>(T*, std::int64_t, std::int64_t, Accumulation<T>);               \
  template void softmax<T>(T*, std::int64_t, std::int64_t, std::int64_t, Accumulation<T>);         \
  template void softmax_backward<T>(const T*, T*, std::int64_t, Accumulation<T>);                  \
  template void drop<T>(const T*, const T*, std::int64_t, const DropMask&, T*);

INSTANTIATE(double)
INSTANTIATE(float)
INSTANTIATE(c10::BFloat16)
INSTANTIATE(c10::Half)

#define INSTANTIATE_ACCUMULATE(T, G) template void accumulate<T, G>(const T*, std::int64_t, G*);
INSTANTIATE_ACCUMULATE(double, double)
INSTANTIATE_ACCUMULATE(float, float)
INSTANTIATE_ACCUMULATE(float, c10::BFloat16)
INSTANTIATE_ACCUMULATE(float, c10::Half)
INSTANTIATE_ACCUMULATE(c10::BFloat16, float)
INSTANTIATE_ACCUMULATE(c10::BFloat16, c10::BFloat16)
INSTANTIATE_ACCUMULATE(c10::Half, float)
INSTANTIATE_ACCUMULATE(c10::Half, c10::Half)

#define INSTANTIATE_ACCUMULATION(A)                \
  template A exponentials<A>(A*, std::int64_t, A); \
  template void scale<A>(A*, std::int64_t, A);

INSTANTIATE_ACCUMULATION(double)
INSTANTIATE_ACCUMULATION(float)

}  // namespace planwright::worker::row_loops
