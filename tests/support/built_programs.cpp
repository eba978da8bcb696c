#include "tests/support/built_programs.h"

namespace planwright::testing {

launcher::RunOptions built_programs(const std::string& folder) {
  launcher::RunOptions options;
  options.worker = folder + "/planwright-worker-cpu";
  options.supervisor = folder + "/planwright-supervisor";
  options.observer = folder + "/observer";
  return options;
}

}  // namespace planwright::testing
