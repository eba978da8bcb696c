#pragma once

#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/self_test_probes.h"
#include "estimator/spec/outcome.h"

/// Estimate and measurement of a probe, byte by byte.
namespace planwright::cli {

/// What one rank holds by the model: the tensors, and no library's workspace.
struct ExactLedger {
  Ledger loaded;  ///< when everything is made, and again at the end of each step
  Ledger peak;    ///< when a steady step's tensors are largest
  Phase phase = Phase::load;
};

/// Of the rank that the probe runs or plays.
ExactLedger exact_ledger(const SelfTestProbe& probe);

/// One row: the sums, and by how much the accounts differ, if any does. Not ok if one does by even
/// a byte, or if nothing was measured.
Check bytes_check(const SelfTestProbe& probe, const Outcome& outcome);

/// The same, then a row for each account that is not empty, one for the peak with the workspace,
/// for information, and one that holds the books against what the allocator and the device say.
std::vector<Check> trace_checks(const SelfTestProbe& probe, const Outcome& outcome);

/// How a probe ended that should have been measured, with the last line that it wrote.
std::string unexpected_end_text(const Outcome& outcome);

}  // namespace planwright::cli
