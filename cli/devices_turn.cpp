#include "cli/devices_turn.h"

#include <fmt/core.h>

#include "cli/signals.h"

namespace planwright::cli {

launcher::DeviceLock await_devices(const Console& console) {
  return launcher::DeviceLock::wait(interrupted, [&](const std::string& holder) {
    console.story(fmt::format("waiting: {} measures on this host's devices", holder));
  });
}

}  // namespace planwright::cli
