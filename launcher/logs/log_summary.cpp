#include "launcher/logs/log_summary.h"

#include <tuple>

namespace planwright::launcher {
namespace {

/// The smaller explains the larger.
int depth(const LoggedFailure& failure) {
  if (failure.kind == OutcomeKind::out_of_memory) return 0;
  if (failure.kind == OutcomeKind::host_out_of_memory) return 1;
  if (failure.consequence) return 4;
  return failure.kind == OutcomeKind::hung ? 3 : 2;
}

}  // namespace

std::optional<LoggedCause> cause_in_log(const LogSummary& summary, bool oom_killed) {
  std::optional<LoggedCause> cause;
  if (oom_killed && summary.killed) {
    cause = summary.killed;
    cause->failure.kind = OutcomeKind::host_out_of_memory;
    cause->failure.consequence = false;
  }
  for (const auto& [rank, failure] : summary.failures) {
    const bool deeper = !cause || std::tuple(depth(failure), failure.at_line) <
                                      std::tuple(depth(cause->failure), cause->failure.at_line);
    if (deeper) cause = LoggedCause{rank, failure};
  }
  return cause;
}

}  // namespace planwright::launcher
