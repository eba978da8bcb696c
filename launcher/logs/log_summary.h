#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/outcome.h"
#include "estimator/spec/units.h"
#include "launcher/logs/field.h"

namespace planwright::launcher {

/// Where a step's time comes from, the surer first.
enum class StepSource : std::uint8_t { stated, parts, rate };

struct StepLine {
  std::optional<int> rank;
  std::optional<std::int64_t> step;
  double seconds = 0;
  StepSource source = StepSource::stated;
  bool operator==(const StepLine&) const = default;
};

enum class RateKind : std::uint8_t { tokens, tokens_per_device, samples };

/// A rate per second since the line before it.
struct RateLine {
  std::optional<int> rank;
  std::optional<std::int64_t> step;
  RateKind kind = RateKind::tokens;
  double per_second = 0;
  bool operator==(const RateLine&) const = default;
};

struct LossLine {
  std::optional<int> rank;
  std::optional<std::int64_t> step;
  std::optional<double> loss;  ///< none if it is not finite
  bool operator==(const LossLine&) const = default;
};

/// Over the whole run so far, its slow beginning included; the last one stated.
struct RunMeans {
  std::optional<double> step_s, tokens_per_s, samples_per_s;
  bool operator==(const RunMeans&) const = default;
};

struct MemoryFigure {
  Bytes bytes;
  double stated = 0;
  LogUnit unit = LogUnit::bare;
  bool operator==(const MemoryFigure&) const = default;
};

/// Peaks and device use at their largest, the other bytes as last stated.
struct LoggedMemory {
  std::optional<MemoryFigure> allocated, allocated_peak, reserved, reserved_peak, device_used;
  std::int64_t allocation_retries = 0;  ///< the most that was stated
  bool operator==(const LoggedMemory&) const = default;
};

/// What torch's out-of-memory message says.
struct LoggedOutOfMemory {
  std::optional<Bytes> requested, allocated, reserved, free, capacity;
  std::optional<int> device;
  bool operator==(const LoggedOutOfMemory&) const = default;
};

struct LoggedFailure {
  OutcomeKind kind = OutcomeKind::crashed;
  bool consequence = false;  ///< of another rank's end
  bool killed = false;       ///< by SIGKILL
  std::string line;          ///< what says so; printable
  std::int64_t at_line = 0;  ///< counted from 1
  std::int64_t steps_before = 0;
  std::optional<LoggedOutOfMemory> out_of_memory;
  bool operator==(const LoggedFailure&) const = default;
};

struct LoggedCause {
  std::optional<int> rank;
  LoggedFailure failure;
  bool operator==(const LoggedCause&) const = default;
};

struct Losses {
  std::int64_t seen = 0, not_finite = 0;
  std::optional<std::int64_t> first_not_finite_step;
  std::optional<double> last;  ///< the last finite one
  bool operator==(const Losses&) const = default;
};

/// Of a log of any length the last so many steps, rates and losses are kept, and the first so many
/// ranks.
constexpr std::size_t kMostLoggedSteps = 65536;
constexpr std::size_t kMostLoggedRanks = 16384;

/// What a log says. Ranks are those that its lines name; nullopt is a line that names none.
struct LogSummary {
  std::vector<StepLine> steps;
  std::vector<RateLine> rates;
  std::vector<LossLine> loss_lines;
  std::int64_t steps_seen = 0, rates_seen = 0;
  std::int64_t last_timed_line = 0;  ///< the last one that states a step's time or a rate
  RunMeans means;
  Losses losses;
  std::map<std::optional<int>, LoggedMemory> memory;
  std::map<std::optional<int>, LoggedFailure> failures;  ///< the first of each rank that tells most
  std::optional<LoggedCause> killed;  ///< the first that says so, whatever else its rank says
  std::optional<std::int64_t> last_step;
  std::int64_t lines = 0, bytes = 0;
  bool operator==(const LogSummary&) const = default;
};

/// The failure that explains the others: a device that ran full, else the host; else the first by
/// itself that is no hang, else a hang, else a consequence. nullopt if none was seen. With
/// `oom_killed`, the kernel's word that it ended something for want of host memory, that is what
/// was killed. That a run failed is known from its exit, not from here: scripts survive errors that
/// they print.
std::optional<LoggedCause> cause_in_log(const LogSummary& summary, bool oom_killed = false);

}  // namespace planwright::launcher
