#include <chrono>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "probes/worker/collectives.h"

namespace planwright::worker {

Transport Collectives::transport() { return Transport::nccl; }

c10::intrusive_ptr<c10d::Backend> make_backend(const probes::ProbeRequest& request, int rank) {
  const std::chrono::duration<double> timeout(request.collective_timeout_s);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  auto store = c10::make_intrusive<c10d::FileStore>(request.rendezvous, request.world);
  store->setTimeout(options->timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, request.world, options);
}

}  // namespace planwright::worker
