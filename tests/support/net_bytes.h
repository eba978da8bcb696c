#pragma once

#include <cstdint>

#include "estimator/liveness.h"

namespace planwright::testing {

/// Bytes that are there after the script and were not before.
inline std::int64_t net(const estimator::Script& script) {
  std::int64_t bytes = 0;
  for (const estimator::Event& event : script.events()) {
    if (event.kind == estimator::Event::Kind::make) bytes += event.bytes;
    if (event.kind == estimator::Event::Kind::drop) bytes -= event.bytes;
  }
  return bytes;
}

}  // namespace planwright::testing
