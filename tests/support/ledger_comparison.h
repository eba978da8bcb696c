#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "launcher/probe_runner.h"
#include "tests/support/layouts.h"
#include "tests/support/ledger_cells.h"

namespace planwright::testing {

/// One plan for which the estimator and the CPU worker are compared byte by byte.
struct LedgerCase {
  std::string name;
  Problem problem;
  Candidate candidate;
  KernelSet kernels = KernelSet::in_place;  ///< composed: an accelerator's, here on a CPU
};

LedgerCase case_of(const LedgerCell& cell);
/// A layout in fp32 or bf16.
LedgerCase case_of(LayoutModel model, const Candidate& layout, Precision precision);

/// What the CPU worker measured in one case, held against the estimate, on every rank.
struct LedgerComparison {
  std::size_t index = 0;  ///< of the case
  /// Accounts that differ when everything is loaded and at the end of a step, by even one byte:
  /// "rank 1, step_end, optimizer: estimated 4096, measured 4160". Empty: exact.
  std::vector<std::string> state_faults;
  /// The same of the instant at which a steady step's tensors are largest, with its phase.
  std::vector<std::string> peak_faults;
  /// The worst rank's |measured / estimated - 1| of that peak, and of the one with workspace.
  double tensor_difference = 0;
  double allocated_difference = 0;
};

/// Trains every case for a warm-up and a measured step, those of equal world size in one set of
/// processes; in the order of the cases. A WorldError if one of them does not end well.
std::vector<LedgerComparison> compare_ledgers(const std::vector<LedgerCase>& cases,
                                              const launcher::RunOptions& options);

/// Plays each of `ranks` of the case in shadow scope, in one process.
LedgerComparison compare_shadow(const LedgerCase& each, const std::vector<int>& ranks,
                                const launcher::RunOptions& options);

}  // namespace planwright::testing
