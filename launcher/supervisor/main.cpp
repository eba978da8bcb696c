#include <unistd.h>

#include <cstdio>
#include <exception>

#include "launcher/supervisor/descendants.h"
#include "launcher/supervisor/supervisor.h"

/// planwright-supervisor: started by the launcher only; its stdin and stdout are described in
/// launcher/group_protocol.h.
int main() {
  try {
    return planwright::supervisor::supervise(STDIN_FILENO, STDOUT_FILENO);
  } catch (const std::exception& error) {
    planwright::supervisor::kill_descendants(2);
    std::fprintf(stderr, "planwright-supervisor: %s\n", error.what());
    return 2;
  }
}
