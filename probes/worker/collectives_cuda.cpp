#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "probes/worker/collectives.h"

namespace planwright::worker {

Transport transport() { return Transport::nccl; }

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size, double timeout_s) {
  const std::chrono::duration<double> timeout(timeout_s);
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, options);
}

}  // namespace planwright::worker
