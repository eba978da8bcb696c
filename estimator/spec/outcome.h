#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/spec/ledger.h"
#include "estimator/spec/time_split.h"
#include "estimator/spec/units.h"

namespace planwright {

enum class ScopeKind { full, shadow, truncated };
template <>
struct Words<ScopeKind> {
  static constexpr std::array<std::string_view, 3> kWords{"full", "shadow", "truncated"};
};

/// How much of the job a probe runs. A measurement is compared with the Estimate of that job only.
struct ProbeScope {
  ScopeKind kind = ScopeKind::full;
  int warmup = 1;  ///< steps before the measured ones
  int steps = 3;   ///< measured steps
  int rank = 0;    ///< of shadow: the one that is played
  bool operator==(const ProbeScope&) const = default;
};

/// What tensors of each use take between steps, as far as somebody who looks from outside can tell.
struct HeldBytes {
  std::optional<Bytes> parameters, gradients, optimizer, communication;
  bool operator==(const HeldBytes&) const = default;
};

/// What one rank saw. A figure that could not be known is absent, never 0.
struct RankMeasurement {
  int rank = 0;
  Ledger loaded;    ///< after load, by account
  Ledger step_end;  ///< after the last measured step
  Ledger peak;      ///< accounts at the allocated peak of the measured steps
  Phase peak_phase = Phase::load;
  Ledger tensors;  ///< accounts at the instant of the largest sum without workspace
  Phase tensors_phase = Phase::load;
  std::optional<Bytes> reserved_peak, device_peak;  ///< accelerators
  std::optional<Bytes> rss_peak;                    ///< CPU
  /// Of a program that keeps no books, by account: its allocated peak as a whole, and what is known
  /// of its accounts. The ledgers are empty then.
  std::optional<Bytes> whole_peak{};
  std::optional<HeldBytes> held{};
  std::vector<double> steps_s;      ///< the measured steps, after warm-up
  std::optional<TimeSplit> time;    ///< of a measured step, the mean; not known on accelerators
  std::optional<double> startup_s;  ///< from exec to the start of the first warm-up step
  bool operator==(const RankMeasurement&) const = default;

  Bytes allocated_peak() const { return whole_peak.value_or(peak.allocated()); }
  Bytes tensor_peak() const { return whole_peak.value_or(tensors.tensors()); }
};

/// A probe that ran to its end.
struct Measurement {
  std::vector<RankMeasurement> ranks;
  std::vector<double> steps_s;  ///< per step, the slowest rank
  double step_time_s = 0;       ///< median of steps_s
  double tokens_per_second_per_device = 0;
  std::vector<double> losses;  ///< per step, mean over ranks
  bool operator==(const Measurement&) const = default;

  Bytes allocated_peak() const;  ///< of the worst rank
  Bytes tensor_peak() const;
};

/// A device ran full: a censored observation, the peak is at least allocated + requested.
struct OutOfMemory {
  Bytes requested, allocated, capacity;
  std::optional<Bytes> reserved;
  std::optional<Account> account;  ///< absent, as the phase, of a program that keeps no books
  std::optional<Phase> phase;
  int rank = 0;
  bool operator==(const OutOfMemory&) const = default;
};

/// CLI.md's names of how a probe may end.
enum class OutcomeKind {
  ok,
  out_of_memory,
  host_out_of_memory,
  crashed,
  hung,
  timed_out,
  environment,
};
template <>
struct Words<OutcomeKind> {
  static constexpr std::array<std::string_view, 7> kWords{
      "ok", "out_of_memory", "host_out_of_memory", "crashed", "hung", "timed_out", "environment"};
};

/// Any other end. `kind` is neither ok nor out_of_memory.
struct Failure {
  OutcomeKind kind = OutcomeKind::crashed;
  std::string detail;    ///< "rank 1 was ended by SIGKILL"
  std::string log_tail;  ///< the last lines of the failed rank
  std::optional<int> rank;
  bool operator==(const Failure&) const = default;
};

struct Outcome {
  std::variant<Measurement, OutOfMemory, Failure> value = Failure{};
  std::map<std::string, std::string> environment;  ///< fingerprint: torch, host, threads, revision
  bool operator==(const Outcome&) const = default;

  OutcomeKind kind() const;
  const Measurement* measurement() const { return std::get_if<Measurement>(&value); }
  const OutOfMemory* out_of_memory() const { return std::get_if<OutOfMemory>(&value); }
  const Failure* failure() const { return std::get_if<Failure>(&value); }
};

}  // namespace planwright
