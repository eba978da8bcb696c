#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "estimator/spec/flat_layout.h"
#include "probes/worker/optimizer_slice.h"

namespace planwright::worker {

// As in the paper, without its first moment. An update is clipped to a root mean square of 1.
constexpr double kAdafactorLargestStep = 1e-2;    ///< then 1 / √t
constexpr double kAdafactorSmallestScale = 1e-3;  ///< of a weight tensor that steps are relative to
constexpr double kAdafactorDecay = 0.8;           ///< moments keep 1 - t^-decay
constexpr double kAdafactorFloor = 1e-30;         ///< added to squares
constexpr double kAdafactorClip = 1;

/// Adafactor with factored second moments and relative steps, over whole tensors on a CPU.
/// Source: Shazeer, Stern (2018), algorithms 4 and 5.
class Adafactor {
 public:
  /// Over all tensors of the layout in these flat buffers. The moments are one buffer of
  /// factored_elements(layout) elements of `type`. Throws std::invalid_argument
  /// unless the layout has one rank and the device is a CPU.
  Adafactor(const FlatLayout& layout, const at::Tensor& weights, const at::Tensor& gradients,
            at::ScalarType type);

  /// One update from the gradients times `factor`; `steps` counts from 1. Allocates nothing.
  void step(double factor, std::int64_t steps) const;

 private:
  /// A matrix, or a vector as a matrix of one row, whose row has no statistic.
  struct Matrix {
    std::int64_t rows = 0, columns = 0;
    at::Tensor weight, gradient, row_moments, column_moments;
  };
  template <class W, class G, class S>
  static void update(const Matrix& matrix, double factor, std::int64_t steps);

  at::Tensor moments_;
  std::vector<Matrix> matrices_;
};

}  // namespace planwright::worker
