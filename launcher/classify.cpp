#include "launcher/classify.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

namespace planwright::launcher {
namespace {

using probes::RankEnd;
using probes::RankJobReport;
using Cause = std::variant<Failure, OutOfMemory>;

/// What a record keeps of a log: enough for a stack of messages, not for a flood.
constexpr std::size_t kKeptTail = 8 * 1024;

/// What glibc's loader says, with exit code 127 or 1.
constexpr std::array<std::string_view, 3> kLoaderMessages{
    "error while loading shared libraries", "symbol lookup error", "' not found (required by"};

/// std::bad_alloc's own text, and the tensor library's when malloc gives nothing.
constexpr std::array<std::string_view, 3> kHostMemoryMessages{
    "std::bad_alloc", "can't allocate memory", "Cannot allocate memory"};

/// What the host lacks besides memory, as strerror says it. A rank that meets its peers without it
/// takes that for the peers' fault.
constexpr std::array<std::string_view, 5> kHostLacksMessages{
    "Too many open files", "No space left on device", "Disk quota exceeded", "File too large",
    "Read-only file system"};

template <std::size_t N>
bool mentions_any(std::string_view text, const std::array<std::string_view, N>& needles) {
  return std::any_of(needles.begin(), needles.end(),
                     [&](std::string_view each) { return text.find(each) != text.npos; });
}

Failure failure(OutcomeKind kind, const RankFate& fate, std::string detail) {
  return {kind, std::move(detail), kept_tail(fate.log_tail), fate.rank};
}

std::string signal_name(int signal) {
  const char* const name = sigabbrev_np(signal);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

/// The job that ended the row; null if all were ok or there is no report.
const RankJobReport* broken_job(const RankFate& fate) {
  if (!fate.report) return nullptr;
  const auto& jobs = fate.report->jobs;
  const auto broken = std::find_if(jobs.begin(), jobs.end(),
                                   [](const RankJobReport& job) { return job.end != RankEnd::ok; });
  return broken == jobs.end() ? nullptr : &*broken;
}

bool blames_host(const RankJobReport& job) {
  return mentions_any(job.message, kHostMemoryMessages) ||
         mentions_any(job.message, kHostLacksMessages);
}

bool ended_for_a_peer(const RankFate& fate) {
  const RankJobReport* const job = broken_job(fate);
  return job != nullptr ? job->end == RankEnd::peer_failed && !blames_host(*job)
                        : fate.signal == 0 && fate.code == probes::kExitPeerFailed;
}

bool is_out_of_memory(const Cause& cause) { return std::holds_alternative<OutOfMemory>(cause); }

std::optional<Cause> cause_in_report(const RankFate& fate) {
  const RankJobReport* const job = broken_job(fate);
  if (job == nullptr) return std::nullopt;
  if (job->end == RankEnd::out_of_memory && job->out_of_memory) {
    OutOfMemory oom = *job->out_of_memory;
    oom.rank = fate.rank;
    return oom;
  }
  OutcomeKind kind = OutcomeKind::crashed;
  if (mentions_any(job->message, kHostLacksMessages)) kind = OutcomeKind::environment;
  if (mentions_any(job->message, kHostMemoryMessages)) kind = OutcomeKind::host_out_of_memory;
  return failure(kind, fate, fmt::format("rank {}: {}", fate.rank, job->message));
}

Failure cause_in_signal(const RankFate& fate, bool oom_killed) {
  if (fate.signal == SIGKILL && oom_killed) {
    return failure(OutcomeKind::host_out_of_memory, fate,
                   fmt::format("the kernel ended rank {} for want of host memory", fate.rank));
  }
  return failure(OutcomeKind::crashed, fate,
                 fmt::format("rank {} was ended by {}", fate.rank, signal_name(fate.signal)));
}

Failure cause_in_code(const RankFate& fate) {
  if (fate.code == probes::kExitNoReport) {
    return failure(
        OutcomeKind::environment, fate,
        fmt::format("rank {} has no room for its report: {}", fate.rank, last_line(fate.log_tail)));
  }
  const bool host_memory = mentions_any(fate.log_tail, kHostMemoryMessages);
  if (!host_memory && mentions_any(fate.log_tail, kLoaderMessages)) {
    return failure(
        OutcomeKind::environment, fate,
        fmt::format("the worker's libraries cannot be loaded: {}", kept_tail(fate.log_tail)));
  }
  return failure(
      host_memory ? OutcomeKind::host_out_of_memory : OutcomeKind::crashed, fate,
      fmt::format("rank {} ended with exit code {} and no report of why", fate.rank, fate.code));
}

/// Why this rank failed by itself; nullopt if it did not, or only followed a peer or an order.
std::optional<Cause> own_cause(const RankFate& fate, const RunEnd& end) {
  if (!fate.not_started.empty()) {
    return failure(OutcomeKind::environment, fate, fate.not_started);
  }
  if (ended_for_a_peer(fate)) return std::nullopt;
  auto cause = cause_in_report(fate);
  if (cause && is_out_of_memory(*cause)) return cause;
  // Ranks that are told to end break one another's collectives, whatever they call it.
  if (fate.ordered && end.stopped_by != StoppedBy::nobody) return std::nullopt;
  if (cause || fate.ordered) return cause;
  if (fate.signal != 0) return cause_in_signal(fate, end.oom_killed);
  if (fate.code != 0) return cause_in_code(fate);
  if (fate.report) return std::nullopt;
  const std::string why = fate.report_problem.empty() ? "" : ": " + fate.report_problem;
  return failure(OutcomeKind::crashed, fate,
                 fmt::format("rank {} ended well but left no report{}", fate.rank, why));
}

/// A device that ran full explains whatever else broke, so it is looked for first; then the first
/// rank to end with a cause of its own.
std::optional<Cause> first_cause(const RunEnd& end) {
  std::optional<Cause> first;
  for (const RankFate& fate : end.ranks) {
    auto cause = own_cause(fate, end);
    if (cause && is_out_of_memory(*cause)) return cause;
    if (cause && !first) first = cause;
  }
  return first;
}

/// The fate of `rank`; an empty one if it never began.
RankFate fate_of(const RunEnd& end, int rank) {
  const auto found = std::find_if(end.ranks.begin(), end.ranks.end(),
                                  [&](const RankFate& fate) { return fate.rank == rank; });
  RankFate none;
  none.rank = rank;
  return found != end.ranks.end() ? *found : none;
}

/// No rank has a cause of its own: it was stopped from here, or all that is known is that peers
/// waited for it in vain.
std::optional<Failure> indirect_cause(const RunEnd& end) {
  if (end.stopped_by == StoppedBy::watchdog) {
    return failure(
        OutcomeKind::hung, fate_of(end, end.silent_rank),
        fmt::format("rank {} gave no sign of life for {:g} s", end.silent_rank, end.limit_s));
  }
  if (end.stopped_by == StoppedBy::deadline) {
    return failure(OutcomeKind::timed_out, fate_of(end, end.silent_rank),
                   fmt::format("still running after {:g} s", end.limit_s));
  }
  for (const RankFate& fate : end.ranks) {
    if (!fate.ordered || fate.report) continue;
    return failure(OutcomeKind::hung, fate,
                   fmt::format("rank {} did not answer its peers", fate.rank));
  }
  for (const RankFate& fate : end.ranks) {
    if (!ended_for_a_peer(fate)) continue;
    const RankJobReport* const job = broken_job(fate);
    return failure(OutcomeKind::crashed, fate,
                   fmt::format("a collective broke and no rank says why: {}",
                               job != nullptr ? job->message : "no report"));
  }
  return std::nullopt;
}

bool ended_well(const RankFate& fate) {
  return fate.not_started.empty() && fate.code == 0 && fate.signal == 0 && fate.report &&
         broken_job(fate) == nullptr;
}

Outcome outcome_of(const Cause& cause) {
  Outcome outcome;
  std::visit([&](const auto& value) { outcome.value = value; }, cause);
  return outcome;
}

}  // namespace

std::string kept_tail(const std::string& log) {
  if (log.size() <= kKeptTail) return log;
  const std::size_t line = log.find('\n', log.size() - kKeptTail);
  return log.substr(line == std::string::npos ? log.size() - kKeptTail : line + 1);
}

std::string last_line(const std::string& log) {
  const std::size_t end = log.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const std::size_t before = log.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return log.substr(begin, end + 1 - begin);
}

bool killed_for_memory(const RankFate& fate, bool oom_killed) {
  constexpr int kShellsKill = 128 + SIGKILL;
  return oom_killed && (fate.signal == SIGKILL || fate.code == kShellsKill);
}

OutcomeKind kind_of_death(const RankFate& fate, bool oom_killed) {
  if (killed_for_memory(fate, oom_killed) || mentions_any(fate.log_tail, kHostMemoryMessages)) {
    return OutcomeKind::host_out_of_memory;
  }
  const bool lacks = mentions_any(fate.log_tail, kHostLacksMessages) ||
                     mentions_any(fate.log_tail, kLoaderMessages);
  return lacks ? OutcomeKind::environment : OutcomeKind::crashed;
}

std::optional<Outcome> failure_of(const RunEnd& end) {
  // An order to stop may have come too late to matter.
  if (std::all_of(end.ranks.begin(), end.ranks.end(), ended_well) && !end.supervisor_lost)
    return {};
  if (const auto cause = first_cause(end)) return outcome_of(*cause);
  if (end.supervisor_lost) {
    const auto kind = end.oom_killed ? OutcomeKind::host_out_of_memory : OutcomeKind::crashed;
    return outcome_of(Failure{kind, "the supervisor of the ranks was ended from outside", "", {}});
  }
  if (const auto cause = indirect_cause(end)) return outcome_of(*cause);
  return std::nullopt;
}

std::map<std::string, std::string> merge_environment(const std::vector<probes::RankReport>& ranks) {
  std::map<std::string, std::vector<std::string>> values;
  for (const probes::RankReport& report : ranks) {
    for (const auto& [key, value] : report.environment) {
      auto& seen = values[key];
      if (std::find(seen.begin(), seen.end(), value) == seen.end()) seen.push_back(value);
    }
  }
  std::map<std::string, std::string> merged;
  for (const auto& [key, seen] : values) merged[key] = fmt::format("{}", fmt::join(seen, " | "));
  return merged;
}

}  // namespace planwright::launcher
