#pragma once

#include <string>
#include <vector>

#include "launcher/probe_runner.h"
#include "tests/support/ledger_cells.h"

namespace planwright::testing {

/// What the CPU worker measured in one cell, held against the estimate, on every rank.
struct LedgerComparison {
  LedgerCell cell;
  /// Accounts that differ when everything is loaded and at the end of a step, by even one byte:
  /// "rank 1, step_end, optimizer: estimated 4096, measured 4160". Empty: exact.
  std::vector<std::string> state_faults;
  /// The same of the instant at which a steady step's tensors are largest, with its phase.
  std::vector<std::string> peak_faults;
  /// The worst rank's |measured / estimated - 1| of that peak, and of the one with workspace.
  double tensor_difference = 0;
  double allocated_difference = 0;
};

/// Trains every cell for a warm-up and a measured step; those of equal dp, which stand together in
/// the result, in one set of processes. A WorldError if one of them does not end well.
std::vector<LedgerComparison> compare_ledgers(const std::vector<LedgerCell>& cells,
                                              const launcher::RunOptions& options);

}  // namespace planwright::testing
