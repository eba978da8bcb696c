#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/spec/host_rates.h"
#include "estimator/spec/json.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/words.h"

/// What one rank answers: one JSON file, written to a temporary name, flushed and renamed after
/// each job, so that a report that exists is whole and a job that was finished is not lost with
/// the process that runs the next one.
namespace planwright::probes {

/// How the rank itself saw a job end.
enum class RankEnd {
  ok,
  out_of_memory,
  peer_failed,  ///< a collective broke: another rank is the cause
  failed,       ///< any other exception; `message` says it
};
}  // namespace planwright::probes

template <>
struct planwright::Words<planwright::probes::RankEnd> {
  static constexpr std::array<std::string_view, 4> kWords{"ok", "out_of_memory", "peer_failed",
                                                          "failed"};
};

namespace planwright::probes {

/// An allocation of device memory, or a result that is booked over to its account.
struct MemoryEvent {
  Phase phase = Phase::load;
  Account account = Account::activations;
  Bytes bytes;
  Bytes tensors;  ///< alive just after it, workspace apart
  bool operator==(const MemoryEvent&) const = default;
};

struct RankJobReport {
  RankEnd end = RankEnd::ok;
  std::string message;
  RankMeasurement measurement;  ///< whole when end is ok, as far as it came otherwise
  std::vector<double> losses;   ///< per step, warm-up included, mean over all ranks
  std::optional<OutOfMemory> out_of_memory;
  std::vector<MemoryEvent> timeline;  ///< of the last step, if TrainJob::timeline asks for it
  bool operator==(const RankJobReport&) const = default;
};

struct RankReport {
  int rank = 0;
  double first_step_monotonic_s = 0;  ///< CLOCK_MONOTONIC at the start of the first warm-up step
  std::vector<RankJobReport> jobs;    ///< as many as were started
  std::optional<HostRates> rates;     ///< of a benchmark job
  std::map<std::string, std::string> environment;
  bool operator==(const RankReport&) const = default;
};

Json to_json(const RankReport& report);
RankReport rank_report_from_json(const Json& json, const std::string& source);

/// One line that a rank writes to file descriptor 3, if it is open, at every sign of life:
/// `step N` when step N of a job begins, `alive` between long parts of one.
constexpr int kProgressDescriptor = 3;

/// Exit codes of the worker; the report says the same in more words.
constexpr int kExitOk = 0;
constexpr int kExitDeviceOutOfMemory = 10;
constexpr int kExitPeerFailed = 12;
constexpr int kExitFailed = 15;
constexpr int kExitNoReport = 16;  ///< the report could not be written, whatever came before

/// Puts the ranks' reports of job `job` together; every rank's end is ok.
Measurement summarize(const std::vector<RankReport>& reports, std::size_t job,
                      std::int64_t tokens_per_step);

}  // namespace planwright::probes
