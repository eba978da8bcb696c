#pragma once

#include <cstdint>

#include "probes/worker/element.h"

/// The inner loops of the optimizers, over plain memory: weights of type W (a master copy or the
/// stored weights), gradients of type G, states of type S. Everything is computed in the weights'
/// accumulation type; an update uses a moment before it is rounded to S.
namespace planwright::worker::update_loops {

/// Every gradient is first multiplied by `factor`.
struct AdamwStep {
  double factor, decay, step_size, root_of_correction, beta1, beta2, epsilon;
};
/// m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g²; w = w decay - step_size m / (√v / root +
/// epsilon).
template <class W, class G, class S>
void adamw(const AdamwStep& step, std::int64_t n, W* weight, const G* gradient, S* moment1,
           S* moment2);

struct SgdStep {
  double factor, rate, momentum;
};
/// m = momentum m + g; w = w - rate m.
template <class W, class G, class S>
void sgd(const SgdStep& step, std::int64_t n, W* weight, const G* gradient, S* moment);

struct LionStep {
  double factor, decay, rate, beta1, beta2;
};
/// w = w decay - rate sign(b1 m + (1 - b1) g); m = b2 m + (1 - b2) g.
template <class W, class G, class S>
void lion(const LionStep& step, std::int64_t n, W* weight, const G* gradient, S* moment);

/// Adafactor's statistics: V = keep V + (1 - keep) × the mean of g² + floor along a row or column.
struct MomentStep {
  double factor, keep, floor;
};
template <class G, class S>
void row_moment(const MomentStep& step, std::int64_t columns, const G* gradient, S* moment);

/// Columns that are summed at once.
constexpr std::int64_t kColumnBlock = 256;
/// Of `columns` neighbouring columns, kColumnBlock at most; rows stand `stride` elements apart.
template <class G, class S>
void column_moments(const MomentStep& step, std::int64_t rows, std::int64_t stride,
                    std::int64_t columns, const G* gradient, S* moments);

/// The sum of (scale g)² / moment over a row.
template <class G, class S>
double update_squares(double scale, std::int64_t columns, const G* gradient, const S* moments);
/// w = w - scale g / √moment over a row.
template <class W, class G, class S>
void normalized_update(double scale, std::int64_t columns, W* weight, const G* gradient,
                       const S* moments);
/// The sum of the values' squares.
template <class W>
double squares(std::int64_t n, const W* values);

}  // namespace planwright::worker::update_loops
