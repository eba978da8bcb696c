#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "estimator/spec/target_traits.h"
#include "probes/worker/weights.h"

namespace planwright::worker {

/// Columns of the logits, or rows of the embedding, that a tensor rank holds: token `first` and on,
/// of which the first `valid` are tokens and the rest is padding.
struct VocabShare {
  std::int64_t first = 0;
  std::int64_t valid = 0;
  bool whole = true;  ///< there are no other tokens

  /// Of a token among them; -1: it is not held here.
  std::int64_t place(std::int64_t token) const {
    return token >= first && token < first + valid ? token - first : -1;
  }
};

/// The type that sums and statistics of a compute type are made in.
constexpr at::ScalarType accumulation_type(at::ScalarType compute) {
  return compute == at::kDouble ? at::kDouble : at::kFloat;
}

/// Everything between the matrix products. Activations are contiguous [rows, width] in the compute
/// type, statistics in the accumulation type, logits and gradients of weights in one of the two.
/// Nothing is returned in new storage; what a kernel allocates meanwhile is on docs/runtime.md.
class Kernels {
 public:
  virtual ~Kernels() = default;

  /// out[row] = tokens[ids[row] - first], or 0 where this share of the vocabulary does not hold it.
  virtual void embed(const at::Tensor& ids, const at::Tensor& tokens, const VocabShare& vocab,
                     const at::Tensor& out) const = 0;
  /// gradient[ids[row] - first] += dy[row], where there is such a row.
  virtual void embed_backward(const at::Tensor& ids, const at::Tensor& dy,
                              const at::Tensor& gradient, const VocabShare& vocab) const = 0;
  /// out[row] += positions[(first_row + row) mod seq].
  virtual void add_positions(const at::Tensor& positions, std::int64_t first_row, std::int64_t seq,
                             const at::Tensor& out) const = 0;
  virtual void positions_backward(const at::Tensor& dy, std::int64_t first_row, std::int64_t seq,
                                  const at::Tensor& gradient) const = 0;

  /// x and y: rows, or heads of rows as views [rows, heads, head_dim], which are normed each.
  /// stats: layer norm [2, rows × heads], mean and reciprocal deviation; RMS norm [1, rows ×
  /// heads].
  virtual void norm_forward(const at::Tensor& x, const NormWeights& weights, const at::Tensor& y,
                            const at::Tensor& stats) const = 0;
  /// dx = gradient, or dx += gradient if `add`. dx may be dy or x. The weights' gradients are added
  /// up if they are trained.
  virtual void norm_backward(const at::Tensor& dy, const at::Tensor& x, const at::Tensor& stats,
                             const NormWeights& weights, const at::Tensor& dx, bool add) const = 0;

  /// gradient += sum of dy's rows.
  virtual void bias_backward(const at::Tensor& dy, const at::Tensor& gradient) const = 0;
  /// gradient += addend, which may be of a narrower type.
  virtual void accumulate(const at::Tensor& gradient, const at::Tensor& addend) const = 0;

  virtual void activation_forward(Activation kind, const at::Tensor& pre,
                                  const at::Tensor& act) const = 0;
  /// d_act becomes d_pre.
  virtual void activation_backward(Activation kind, const at::Tensor& pre,
                                   const at::Tensor& d_act) const = 0;
  /// act = kind(gate) * up; gate_up is [rows, gate then up].
  virtual void gated_forward(Activation kind, const at::Tensor& gate_up,
                             const at::Tensor& act) const = 0;
  /// gate_up becomes its own gradient. d_act may be overwritten.
  virtual void gated_backward(Activation kind, const at::Tensor& gate_up,
                              const at::Tensor& d_act) const = 0;

  /// Rotates the first `heads` heads of each row in place, by the angles of position row mod seq,
  /// backwards if `inverse`. A head's pairs are (i, i + head_dim / 2).
  virtual void rotate(const at::Tensor& rows, std::int64_t heads, const RotaryTables& tables,
                      bool inverse) const = 0;

  /// Scores [rows, seq], of queries row mod seq, become the weights of each query for the keys up
  /// to its own, the last `window` of them if it is not 0: softmax(scale × scores), 0 elsewhere.
  virtual void causal_softmax(const at::Tensor& scores, std::int64_t window,
                              double scale) const = 0;
  /// The gradient of those weights becomes that of the scores.
  virtual void softmax_backward(const at::Tensor& weights, const at::Tensor& gradient,
                                double scale) const = 0;

  /// Sum over rows of the cross entropy; logits become scale × its gradient.
  virtual double cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                               double scale) const = 0;

  // The same in three parts, where each tensor rank has some columns of the logits: `vocab` says
  // which. In between, the ranks' maxima and sums are put together.
  /// largest[row], minus infinity without columns.
  virtual void largest_logits(const at::Tensor& logits, const VocabShare& vocab,
                              const at::Tensor& largest) const = 0;
  /// sums[0] = sum of exp(logits - largest), sums[1] = target's logit - largest, or 0. Wide logits
  /// become the exponentials.
  virtual void sum_exponentials(const at::Tensor& logits, const at::Tensor& targets,
                                const VocabShare& vocab, const at::Tensor& largest,
                                const at::Tensor& sums) const = 0;
  /// As cross_entropy, of what `sum_exponentials` left, given maxima and sums over all ranks.
  virtual double shared_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                      const VocabShare& vocab, const at::Tensor& largest,
                                      const at::Tensor& sums, double scale) const = 0;
};

/// in_place: own loops for CPU tensors. composed: libtorch's operators, on any device.
const Kernels& kernels(KernelSet set);
const Kernels& in_place_kernels();
const Kernels& composed_kernels();

}  // namespace planwright::worker
