#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/support/fault_rows.h"

namespace planwright::testing {

/// What one fault did. Times in seconds.
struct FaultResult {
  std::string skipped;  ///< why the row cannot be tried here; everything else is empty then
  std::string got;      ///< "crashed, rank 1"
  std::string detail;
  std::optional<double> peers_gone_s;  ///< from the first end of a rank to the last
  std::optional<double> all_gone_s;    ///< from the last end of a rank until nothing is left
  std::string next;                    ///< how a healthy probe right behind it went
  std::vector<std::string> wrong;      ///< empty: all is as it has to be
  std::vector<std::string> late;  ///< bounds below that were missed: a busy machine misses them
};

/// On a machine that is not busy nothing may be left so long after the last rank has ended, and
/// peers may live so long.
constexpr double kAllGone_s = 0.5;
constexpr double kPeersGone_s = 5;

/// Injects the fault into a probe of the real worker, looks at what it leaves behind, and runs a
/// healthy probe after it. `bin` is the folder of this build's programs.
FaultResult run_fault(const FaultRow& row, const std::string& bin);

/// "crashed, rank 1: was ended by SIGKILL", the part that the table is about.
std::string expected_text(const FaultRow& row);

}  // namespace planwright::testing
