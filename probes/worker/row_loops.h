#pragma once

#include <cstdint>

#include "probes/worker/drop_mask.h"
#include "probes/worker/element.h"

/// The inner loops of the in-place kernels, over plain memory, for the storage types double, float,
/// bfloat16 and half. Each is compiled for several instruction sets and chosen at start.
namespace planwright::worker::row_loops {

/// One row of `width` is normalised; the statistics are written through the pointers.
/// kCentered: layer norm; otherwise RMS norm, without mean and bias.
template <class T, bool kCentered>
void norm(const T* x, const T* weight, const T* bias, Accumulation<T> eps, std::int64_t width, T* y,
          Accumulation<T>* mean, Accumulation<T>* reciprocal);

/// The gradient of one row. kTrained: weight and bias gradients are added up. dx may be dy or x.
template <class T, bool kCentered, bool kTrained>
void norm_backward(const T* dy, const T* x, const T* weight, Accumulation<T> mean,
                   Accumulation<T> reciprocal, std::int64_t width, T* dx, bool add,
                   Accumulation<T>* d_weight, Accumulation<T>* d_bias);

/// y = a (+ b, if it is not null).
template <class T>
void sum(const T* a, const T* b, std::int64_t n, T* y);

/// total += addend, summed in the wider of the two and rounded to G.
template <class T, class G>
void accumulate(const T* addend, std::int64_t n, G* total);

struct Silu;
struct GeluTanh;

template <class T, class Kind>
void activation(const T* pre, std::int64_t n, T* act);
template <class T, class Kind>
void activation_backward(const T* pre, std::int64_t n, T* d_act);
template <class T, class Kind>
void gated(const T* gate, const T* up, std::int64_t n, T* act);
template <class T, class Kind>
void gated_backward(T* gate, T* up, const T* d_act, std::int64_t n);

/// Rotates the pairs (low[i], high[i]) by the angle of cos[i] and sign × sin[i].
template <class T>
void rotate(T* low, T* high, const Accumulation<T>* cos, const Accumulation<T>* sin,
            Accumulation<T> sign, std::int64_t n);

/// The largest of a row, minus infinity if it is empty.
template <class T>
Accumulation<T> largest(const T* row, std::int64_t width);
/// The sum of exp(factor × row - offset).
template <class T>
Accumulation<T> sum_exponentials(const T* row, std::int64_t width, Accumulation<T> factor,
                                 Accumulation<T> offset);
/// row = scale × exp(factor × row - offset).
template <class T>
void exponentials(T* row, std::int64_t width, Accumulation<T> factor, Accumulation<T> offset,
                  Accumulation<T> scale);
/// Both at once: row = exp(row - offset), and its sum. Of wide types, which keep the precision.
template <class A>
A exponentials(A* row, std::int64_t width, A offset);
template <class A>
void scale(A* row, std::int64_t width, A factor);

/// The cross entropy of one row; logits become scale × its gradient.
template <class T>
double cross_entropy(T* logits, std::int64_t width, std::int64_t target, Accumulation<T> scale);

/// row = softmax(scale × row) over [begin, end), 0 elsewhere.
template <class T>
void softmax(T* row, std::int64_t begin, std::int64_t end, std::int64_t width,
             Accumulation<T> scale);
/// The gradient of what `softmax` made becomes that of what it was made from.
template <class T>
void softmax_backward(const T* weights, T* gradient, std::int64_t width, Accumulation<T> scale);

/// y = x / (1 - probability), or 0 where the mask drops it (+ residual, if it is not null).
template <class T>
void drop(const T* x, const T* residual, std::int64_t n, const DropMask& mask, T* y);

}  // namespace planwright::worker::row_loops
