#pragma once

#include <ATen/core/Tensor.h>

#include "probes/worker/group.h"
#include "probes/worker/kernels.h"
#include "probes/worker/weights.h"

/// A stage's matrices shared out among tensor ranks: columns of the first matrix of a pair, rows of
/// the second (Megatron). Rows are tokens. Without sequence parallelism every rank has all of them
/// between the pairs; with it each has its rank-th slice, and they are gathered before a pair and
/// summed and scattered after it.
/// Source: Shoeybi et al. (2019), arXiv:1909.08053, section 3; Korthikanti et al. (2022),
/// arXiv:2205.05198, section 4.2.2.
namespace planwright::worker {

class TensorParallel {
 public:
  TensorParallel(Group& group, bool sp) : group_(group), sp_(sp) {}

  int rank() const { return group_.rank(); }
  int size() const { return group_.size(); }
  bool sp() const { return sp_; }
  Group& group() const { return group_; }

  /// Rows of this rank's slice, and the first of them.
  std::int64_t local_rows(std::int64_t rows) const { return sp_ ? rows / size() : rows; }
  std::int64_t first_row(std::int64_t rows) const { return sp_ ? rank() * (rows / size()) : 0; }

  /// All rows: `rows` itself, or with sequence parallelism gathered in new storage.
  at::Tensor gathered(const at::Tensor& rows) const;

  /// In new storage, this rank's rows of residual + sum over ranks of a Wᵀ + bias.
  at::Tensor project(const at::Tensor& a, const LinearWeights& w, const at::Tensor& residual) const;

  /// dx becomes this rank's rows of the sum over ranks of dy W. `whole` is what `gathered` gave for
  /// the product's input; it is overwritten.
  void input_gradient(const at::Tensor& dy, const LinearWeights& w, const at::Tensor& whole,
                      const at::Tensor& dx) const;

  /// Sums over ranks; with sequence parallelism this rank's rows of the sum go to `rows`, otherwise
  /// `whole` is `rows`.
  void reduce(const at::Tensor& whole, const at::Tensor& rows) const;

  /// A buffer for `reduce`: `rows` itself, or all rows in new storage.
  at::Tensor partial(const at::Tensor& rows) const;

 private:
  Group& group_;
  bool sp_;
};

}  // namespace planwright::worker
