#include "probes/worker/adafactor.h"

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <stdexcept>
#include <utility>

#include "estimator/spec/factored_moments.h"
#include "probes/worker/update_loops.h"

namespace planwright::worker {
namespace {

using update_loops::MomentStep;

/// Elements that make a thread worth waking.
constexpr std::int64_t kGrainElements = 32768;

std::int64_t rows_per_grain(std::int64_t columns) {
  return std::max<std::int64_t>(1, kGrainElements / columns);
}

/// A matrix of the flat buffers with its statistics, as plain memory. No `row_moments`: one row.
template <class W, class G, class S>
struct Plain {
  std::int64_t rows, columns;
  W* weight;
  const G* gradient;
  S *row_moments, *column_moments;

  void update_moments(const MomentStep& step) const {
    if (row_moments != nullptr) {
      at::parallel_for(0, rows, rows_per_grain(columns), [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin; row < end; ++row) {
          update_loops::row_moment(step, columns, gradient + row * columns, row_moments + row);
        }
      });
    }
    constexpr std::int64_t kBlock = update_loops::kColumnBlock;
    const std::int64_t blocks = (columns + kBlock - 1) / kBlock;
    at::parallel_for(
        0, blocks, rows_per_grain(rows * kBlock), [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t block = begin; block < end; ++block) {
            const std::int64_t from = block * kBlock;
            update_loops::column_moments(step, rows, columns, std::min(kBlock, columns - from),
                                         gradient + from, column_moments + from);
          }
        });
  }

  double mean_row_moment() const {
    if (row_moments == nullptr) return 1;
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += wide(row_moments[row]);
    return sum / static_cast<double>(rows);
  }

  /// What a row's gradients are multiplied with beside the column's part: V is the product of the
  /// row's and the column's statistic over the rows' mean.
  double row_scale(std::int64_t row, double mean) const {
    return row_moments == nullptr ? 1 : std::sqrt(mean / wide(row_moments[row]));
  }

  /// The sum over rows of what body(row) returns.
  template <class Body>
  double sum_of_rows(const Body& body) const {
    return at::parallel_reduce(
        0, rows, rows_per_grain(columns), 0.0,
        [&](std::int64_t begin, std::int64_t end, double sum) {
          for (std::int64_t row = begin; row < end; ++row) sum += body(row);
          return sum;
        },
        std::plus<>());
  }

  double root_mean_square(double sum) const {
    return std::sqrt(sum / static_cast<double>(rows * columns));
  }
};

}  // namespace

Adafactor::Adafactor(const FlatLayout& layout, const at::Tensor& weights,
                     const at::Tensor& gradients, at::ScalarType type) {
  if (layout.ranks != 1) throw std::invalid_argument("adafactor needs whole tensors, not shards");
  if (!weights.is_cpu()) throw std::invalid_argument("adafactor runs on CPUs only");
  moments_ = at::zeros({factored_elements(layout)}, weights.options().dtype(type));
  std::int64_t begin = 0;
  for (const FlatTensor& tensor : layout.tensors) {
    const auto& shape = tensor.tensor.shape;
    const bool vector = shape.size() == 1;
    Matrix m;
    m.rows = vector ? 1 : shape[0];
    m.columns = shape.back();
    m.weight = weights.narrow(0, tensor.offset, tensor.numel);
    m.gradient = gradients.narrow(0, tensor.offset, tensor.numel);
    const auto next = [&](std::int64_t count) {
      at::Tensor statistics = moments_.narrow(0, begin, count);
      begin += count;
      return statistics;
    };
    if (!vector) m.row_moments = next(m.rows);
    m.column_moments = next(m.columns);
    matrices_.push_back(std::move(m));
  }
}

void Adafactor::step(double factor, std::int64_t steps) const {
  for (const Matrix& each : matrices_) {
    dispatch_types(each.weight, each.gradient, moments_, [&]<class W, class G, class S>(W, G, S) {
      update<W, G, S>(each, factor, steps);
    });
  }
}

template <class W, class G, class S>
void Adafactor::update(const Matrix& matrix, double factor, std::int64_t steps) {
  const Plain<W, G, S> m{matrix.rows,
                         matrix.columns,
                         matrix.weight.data_ptr<W>(),
                         matrix.gradient.data_ptr<G>(),
                         matrix.row_moments.defined() ? matrix.row_moments.data_ptr<S>() : nullptr,
                         matrix.column_moments.data_ptr<S>()};
  const auto t = static_cast<double>(steps);
  m.update_moments({factor, 1 - std::pow(t, -kAdafactorDecay), kAdafactorFloor});

  const double mean = m.mean_row_moment();
  const double update_size = m.root_mean_square(m.sum_of_rows([&](std::int64_t row) {
    return update_loops::update_squares(factor * m.row_scale(row, mean), m.columns,
                                        m.gradient + row * m.columns, m.column_moments);
  }));
  const double weight_size = m.root_mean_square(m.sum_of_rows([&](std::int64_t row) {
    return update_loops::squares(m.columns, m.weight + row * m.columns);
  }));
  const double rate = std::max(kAdafactorSmallestScale, weight_size) *
                      std::min(kAdafactorLargestStep, 1 / std::sqrt(t)) /
                      std::max(1.0, update_size / kAdafactorClip);
  at::parallel_for(0, m.rows, rows_per_grain(m.columns), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      update_loops::normalized_update(rate * factor * m.row_scale(row, mean), m.columns,
                                      m.weight + row * m.columns, m.gradient + row * m.columns,
                                      m.column_moments);
    }
  });
}

}  // namespace planwright::worker
