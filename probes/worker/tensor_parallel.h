#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <initializer_list>

#include "probes/worker/group.h"
#include "probes/worker/kernels.h"
#include "probes/worker/lora.h"
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

  /// In new storage, this rank's rows of the sum over products and ranks of a Wᵀ + bias, of
  /// what their adapters add, and of `residual` if it is there; [local rows, width of `like`].
  struct Product {
    const at::Tensor& a;
    const LinearWeights& weights;
    const LoraStates& lora;
  };
  at::Tensor project(std::initializer_list<Product> products, const at::Tensor& like,
                     const at::Tensor* residual) const;

  /// Sums over ranks; with sequence parallelism this rank's rows of the sum go to `rows`, otherwise
  /// `whole` is `rows`.
  void reduce(const at::Tensor& whole, const at::Tensor& rows) const;

  /// A buffer for `reduce`: `rows` itself, or all rows in new storage.
  at::Tensor partial(const at::Tensor& rows) const;

  /// This rank's part of all rows, and every rank's from them.
  at::Tensor own_rows(const at::Tensor& whole) const { return sp_ ? group_.own(whole) : whole; }
  void gather(const at::Tensor& whole) const {
    if (sp_) group_.gather(whole);
  }

 private:
  Group& group_;
  bool sp_;
};

}  // namespace planwright::worker
