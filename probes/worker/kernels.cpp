#include "probes/worker/kernels.h"

namespace planwright::worker {

const Kernels& kernels(KernelSet set) {
  return set == KernelSet::in_place ? in_place_kernels() : composed_kernels();
}

}  // namespace planwright::worker
