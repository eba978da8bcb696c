#pragma once

#include <vector>

#include "tests/support/fault_rows.h"

namespace planwright::testing {

/// Rows of fault_rows: a device without room, in each phase and account, and a host without.
std::vector<FaultRow> memory_faults();

}  // namespace planwright::testing
