#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "probes/worker/collectives.h"

namespace planwright::worker {

Transport transport() { return Transport::gloo; }

c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size, double timeout_s) {
  const std::chrono::duration<double> timeout(timeout_s);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->timeout = std::chrono::duration_cast<std::chrono::milliseconds>(timeout);
  options->threads = 1;
  // All ranks are on this host; the host's own name may resolve to an interface that is down.
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1", false));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

}  // namespace planwright::worker
