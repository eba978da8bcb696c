#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/intrusive_ptr.h>

#include <stdexcept>

#include "estimator/spec/target_traits.h"
#include "probes/protocol/probe_request.h"

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

/// The group of all ranks of a run. Every call is made by all of them in the same order and has
/// been carried out when it returns (on an accelerator: is ordered before what is queued next).
/// With one rank nothing is started and nothing happens.
class Collectives {
 public:
  /// Meets the others at request.rendezvous.
  Collectives(const probes::ProbeRequest& request, int rank);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int world() const { return world_; }
  static Transport transport();

  /// Sums, in place.
  void all_reduce(const at::Tensor& tensor);
  void broadcast(const at::Tensor& tensor, int root);
  void barrier();

  /// nccl only. The tensor's rank-th equal slice becomes the sum of all ranks' slices there.
  void reduce_scatter(const at::Tensor& tensor);
  /// nccl only. Every rank's rank-th equal slice is sent to all.
  void all_gather(const at::Tensor& tensor);

 private:
  template <class Start>
  void run(const Start& start);
  at::Tensor own_slice(const at::Tensor& tensor) const;

  int rank_;
  int world_;
  c10::intrusive_ptr<c10d::Backend> backend_;  ///< null with one rank
};

/// The backend of this program's transport; defined in collectives_cpu.cpp, collectives_cuda.cpp.
c10::intrusive_ptr<c10d::Backend> make_backend(const probes::ProbeRequest& request, int rank);

}  // namespace planwright::worker
