#pragma once

#include "cli/console.h"
#include "launcher/device_lock.h"

namespace planwright::cli {

/// Waits until nobody else measures on this host, and says for whom it waits. Interrupted if a
/// signal comes meanwhile.
launcher::DeviceLock await_devices(const Console& console);

}  // namespace planwright::cli
