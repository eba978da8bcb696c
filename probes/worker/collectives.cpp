#include "probes/worker/collectives.h"

#include <exception>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "probes/worker/device_memory.h"
#include "probes/worker/error_text.h"

namespace planwright::worker {

Collectives::Collectives(const probes::ProbeRequest& request, int rank)
    : rank_(rank), world_(request.world) {
  if (world_ == 1) return;
  try {
    backend_ = make_backend(request, rank);
  } catch (const std::exception& error) {
    throw PeerFailed("the ranks did not meet: " + error_text(error));
  }
}

Collectives::~Collectives() = default;

template <class Start>
void Collectives::run(const Start& start) {
  if (world_ == 1) return;
  try {
    start()->wait();
  } catch (const std::exception& error) {
    if (out_of_memory(error)) throw;
    throw PeerFailed("a collective broke: " + error_text(error));
  }
}

at::Tensor Collectives::own_slice(const at::Tensor& tensor) const {
  const std::int64_t numel = tensor.numel() / world_;
  return tensor.narrow(0, rank_ * numel, numel);
}

void Collectives::all_reduce(const at::Tensor& tensor) {
  run([&] {
    std::vector<at::Tensor> tensors{tensor};
    return backend_->allreduce(tensors);
  });
}

void Collectives::broadcast(const at::Tensor& tensor, int root) {
  run([&] {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend_->broadcast(tensors, options);
  });
}

void Collectives::barrier() {
  run([&] { return backend_->barrier(); });
}

void Collectives::reduce_scatter(const at::Tensor& tensor) {
  run([&] {
    at::Tensor whole = tensor, own = own_slice(tensor);
    return backend_->_reduce_scatter_base(own, whole);
  });
}

void Collectives::all_gather(const at::Tensor& tensor) {
  run([&] {
    at::Tensor whole = tensor, own = own_slice(tensor);
    return backend_->_allgather_base(whole, own);
  });
}

}  // namespace planwright::worker
