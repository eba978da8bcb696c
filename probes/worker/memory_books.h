#pragma once

#include <optional>
#include <vector>

#include "estimator/spec/ledger.h"
#include "probes/protocol/probe_report.h"

namespace planwright::worker {

/// The largest sums seen, each with the accounts and the phase of its own instant.
struct MemoryPeaks {
  Ledger allocated;  ///< at the largest sum of all accounts
  Phase allocated_phase = Phase::load;
  Ledger tensors;  ///< at the largest sum without workspace
  Phase tensors_phase = Phase::load;
};

/// Bytes by account, live and at their peaks. Not synchronised: its owner holds a lock.
class MemoryBooks {
 public:
  void add(Account account, Bytes bytes, Phase phase);
  void remove(Account account, Bytes bytes);
  /// Books `bytes` that are live over to another account.
  void move(Account from, Account to, Bytes bytes, Phase phase);

  const Ledger& live() const { return live_; }
  Bytes allocated() const { return allocated_; }
  const MemoryPeaks& peaks() const { return peaks_; }
  /// From here on the peaks are those since now; what is live counts.
  void reset_peaks(Phase phase);

  /// Keeps every allocation of a tensor until the timeline is taken.
  void begin_timeline() { timeline_.emplace(); }
  std::vector<probes::MemoryEvent> take_timeline();

 private:
  void note_event(Account account, Bytes bytes, Phase phase);
  void change(Account account, Bytes bytes);
  void note_peaks(Phase phase);

  Ledger live_;
  Bytes allocated_, tensors_;
  Bytes largest_allocated_, largest_tensors_;
  MemoryPeaks peaks_;
  std::optional<std::vector<probes::MemoryEvent>> timeline_;
};

}  // namespace planwright::worker
