#include "cli/version.h"

#include <fmt/core.h>

#include "planwright_version.h"

namespace planwright::cli {

std::string version_text() {
  return fmt::format("planwright {}\nrevision {}\ntorch {}\nCUDA {}\nNCCL {}\n", kVersion,
                     kGitRevision, kTorchVersion, kCudaVersion, kNcclVersion);
}

}  // namespace planwright::cli
