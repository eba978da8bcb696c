#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "estimator/spec/target_traits.h"
#include "probes/worker/spending.h"

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace planwright::worker {

/// A collective broke: another rank died or did not come in time.
class PeerFailed : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Group;

/// Collectives that were begun. wait() returns when they have been carried out (on an accelerator:
/// when they are ordered before what is queued next); the tensors stay in use until then.
class Pending {
 public:
  Pending();
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  void wait();

 private:
  friend class Group;
  std::vector<c10::intrusive_ptr<c10d::Work>> works_;
  double not_before_ = 0;
  Spending kind_ = Spending::communication;
};

/// What goes to a neighbour and what comes from it; undefined tensors do neither.
struct Neighbour {
  int rank = 0;  ///< within the group
  at::Tensor out, in;
};

/// Ranks that work together. Every call is made by all of them, in the same order. With one rank
/// nothing happens. Without a backend it is a stand-in for a group of which only this rank runs:
/// the same buffers are touched, and what others would have sent is this rank's own.
class Group {
 public:
  /// `rank` counts within the group. `link`: bytes/s of an artificial link, for tests of overlap.
  Group(int rank, int size, c10::intrusive_ptr<c10d::Backend> backend,
        std::optional<double> link = std::nullopt);
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// In place: every rank gets the sum.
  Pending begin_sum(const at::Tensor& tensor);
  /// The rank-th of the tensor's equal slices (of its first dimension) becomes the sum of all
  /// ranks' slices there; what the others become is not said.
  Pending begin_scatter_sum(const at::Tensor& whole);
  /// The rank-th slice of every rank is sent to all.
  Pending begin_gather(const at::Tensor& whole);

  void sum(const at::Tensor& tensor) { begin_sum(tensor).wait(); }
  void scatter_sum(const at::Tensor& whole) { begin_scatter_sum(whole).wait(); }
  void gather(const at::Tensor& whole) { begin_gather(whole).wait(); }
  void maximum(const at::Tensor& tensor);
  void broadcast(const at::Tensor& tensor, int root);
  void barrier();
  /// All at once.
  void exchange(const std::vector<Neighbour>& neighbours);

  /// This rank's slice of `whole`.
  at::Tensor own(const at::Tensor& whole) const { return slice(whole, rank_); }

 private:
  template <class Start>
  void begin(Pending& pending, double bytes, const Start& start);
  template <class Start>
  Pending begun(double bytes, const Start& start);
  at::Tensor slice(const at::Tensor& whole, int rank) const;
  void stand_in_gather(const at::Tensor& whole) const;

  int rank_;
  int size_;
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::optional<double> link_;
  double link_free_at_ = 0;
};

/// The worker's own way to carry out collectives.
Transport transport();

}  // namespace planwright::worker
