#include "launcher/command_failure.h"

#include <fmt/format.h>

#include <utility>

#include "launcher/command_silence.h"
#include "launcher/failure_words.h"

namespace planwright::launcher {
namespace {

/// The first rank whose memory ran out without anybody catching it; else one that was caught in a
/// run that failed all the same.
std::optional<std::pair<int, ObservedFull>> first_full(const CommandEnd& end) {
  std::optional<std::pair<int, ObservedFull>> caught;
  for (const ObservedProcess& process : end.observed) {
    for (const ObservedFull& full : process.full) {
      if (!full.caught) return std::pair(process.rank, full);
      if (!caught) caught = std::pair(process.rank, full);
    }
  }
  return caught;
}

/// `Said` is what the observer or the log knows of it.
template <class Said>
OutOfMemory out_of_memory(int rank, const Said& said) {
  OutOfMemory out;
  out.rank = rank;
  out.requested = said.requested.value_or(Bytes{});
  out.allocated = said.allocated.value_or(Bytes{});
  out.reserved = said.reserved;
  out.capacity = said.capacity.value_or(out.allocated + out.requested);
  return out;
}

/// What an exception that nobody caught says is missing here, rather than wrong.
bool names_missing_package(const std::string& text) {
  return text.find("ModuleNotFoundError") != text.npos || text.find("No module named") != text.npos;
}

std::string told_of_killed(const LoggedCause& cause) {
  const std::string who = cause.rank ? fmt::format("rank {}", *cause.rank) : "a process";
  return fmt::format("the kernel ended {} for want of host memory", who);
}

class Diagnosis {
 public:
  Diagnosis(const CommandJob& job, const CommandEnd& end)
      : job_(job), end_(end), fate_(fate_of_command(end)), cause_(cause_of(end)) {}

  Outcome outcome() const {
    if (fate_ != nullptr && !fate_->not_started.empty()) {
      return failed(OutcomeKind::environment, fate_->not_started);
    }
    if (const auto full = first_full(end_)) return of_full(full->first, full->second);
    if (cause_ && is_memory(*cause_)) return of_logged_memory();
    if (end_.run.stopped_by != StoppedBy::nobody) return of_stop();
    if (fate_ == nullptr || end_.run.supervisor_lost) {
      return failed(OutcomeKind::crashed, "the supervisor of the command was ended from outside");
    }
    return fate_->signal == 0 && fate_->code == 0 ? of_good_exit() : of_bad_exit();
  }

 private:
  Outcome failed(OutcomeKind kind, std::string detail) const {
    return {
        Failure{kind, std::move(detail), fate_ == nullptr ? "" : kept_tail(fate_->log_tail), {}},
        {}};
  }

  Outcome of_full(int rank, const ObservedFull& full) const {
    const bool budget_is_spent = full.capacity.has_value();  // the host has none that is told
    if (!full.on_cpu || budget_is_spent) return {out_of_memory(rank, full), {}};
    return failed(OutcomeKind::host_out_of_memory, fmt::format("rank {}: {}", rank, full.message));
  }

  Outcome of_logged_memory() const {
    const LoggedFailure& failure = cause_->failure;
    if (failure.kind == OutcomeKind::host_out_of_memory) {
      return failed(failure.kind, failure.killed ? told_of_killed(*cause_) : told(*cause_));
    }
    const LoggedOutOfMemory said = failure.out_of_memory.value_or(LoggedOutOfMemory{});
    return {out_of_memory(cause_->rank.value_or(0), said), {}};
  }

  /// What else the log says may be the reason, or have come of the stop.
  Outcome of_stop() const {
    const bool silent = end_.run.stopped_by == StoppedBy::watchdog;
    const std::string why =
        silent ? fmt::format("no step and no other sign of life for {:g} s", end_.run.limit_s)
               : fmt::format("still running after {:g} s", end_.run.limit_s);
    return failed(silent ? OutcomeKind::hung : OutcomeKind::timed_out, why + hint());
  }

  /// That of a pipe is its last command's, so that the log may know better.
  Outcome of_good_exit() const {
    const bool hung = cause_ && cause_->failure.kind == OutcomeKind::hung;
    return failed(hung ? OutcomeKind::hung : OutcomeKind::crashed,
                  why_nothing_measured(job_, end_) + hint());
  }

  Outcome of_bad_exit() const {
    const std::string why = failure_words(end_, cause_);
    return failed(kind_of_bad_exit(), fmt::format("the command {}{}{}{}", how_it_ended(*fate_),
                                                  why.empty() ? "" : "; ", why, remedy(why)));
  }

  /// Python: `No module named 'deepspeed.ops'`.
  static std::string remedy(const std::string& why) {
    constexpr std::string_view kMissing = "No module named '";
    const std::size_t at = why.find(kMissing);
    if (at == std::string::npos) return "";
    const std::size_t begin = at + kMissing.size();
    const std::string package = why.substr(begin, why.find_first_of(".'", begin) - begin);
    return fmt::format(
        "; install it where the command runs (pip install {}), or activate the "
        "environment that has it",
        package);
  }

  OutcomeKind kind_of_bad_exit() const {
    if (killed_for_memory(*fate_, end_.run.oom_killed)) return OutcomeKind::host_out_of_memory;
    if (names_missing_package(own_error(end_))) return OutcomeKind::environment;
    if (cause_ && !cause_->failure.consequence) return cause_->failure.kind;
    return kind_of_death(*fate_, end_.run.oom_killed);
  }

  std::string hint() const {
    if (!cause_ || cause_->failure.consequence) return "";
    return fmt::format("; its log says \"{}\"", told(*cause_));
  }

  const CommandJob& job_;
  const CommandEnd& end_;
  const RankFate* fate_;
  const std::optional<LoggedCause> cause_;
};

}  // namespace

Outcome command_failure(const CommandJob& job, const CommandEnd& end) {
  return Diagnosis(job, end).outcome();
}

std::optional<LoggedCause> cause_of(const CommandEnd& end) {
  return cause_in_log(end.log, end.run.oom_killed);
}

bool is_memory(const LoggedCause& cause) {
  return cause.failure.kind == OutcomeKind::out_of_memory ||
         cause.failure.kind == OutcomeKind::host_out_of_memory;
}

}  // namespace planwright::launcher
