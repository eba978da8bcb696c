#include "launcher/command_silence.h"

#include <fmt/format.h>

#include <algorithm>

#include "launcher/own_words.h"

namespace planwright::launcher {
namespace {

std::string why_no_step_seen(const CommandEnd& end) {
  if (end.watched.all == 0) {
    return "no process of it loaded the observer: it never imports torch, its Python ignores "
           "PYTHONPATH (-I, -E, -S), or it sets another";
  }
  return fmt::format(
      "it imports torch, but no optimizer of torch was seen to step: it makes none, or steps only "
      "within torch.compile{}",
      end.watched.placed == 0 ? ", or its ranks' Python ignores PYTHONPATH (-I, -E, -S)" : "");
}

std::string why_nothing_seen(const CommandJob& job, const CommandEnd& end) {
  if (!job.observe) return "it left no report in PLANWRIGHT_REPORT, and it was not observed";
  if (end.observed.empty()) {
    return "it left no report in PLANWRIGHT_REPORT; " + why_no_step_seen(end);
  }
  std::string missing = why_ranks_are_missing(job, end);
  if (!missing.empty()) return missing;
  return fmt::format("it made no step behind the {} of the warm-up", job.scope.warmup);
}

/// Rates are times only of steps whose size is known.
std::string why_nothing_logged(const CommandEnd& end) {
  const bool of_unknown_size = end.log.last_timed_line > 0 && end.log.steps_seen == 0;
  return of_unknown_size
             ? "its log states rates, but not of what its job says the size of a step is"
             : "its log states no time of a step behind the warm-up";
}

std::string last_words(const RankFate* fate) {
  const std::string words = fate == nullptr ? "" : own_words(fate->log_tail);
  return words.empty() ? "printed nothing" : fmt::format("printed \"{}\" last", words);
}

}  // namespace

std::string why_ranks_are_missing(const CommandJob& job, const CommandEnd& end) {
  const int seen = static_cast<int>(end.observed.size());
  if (seen == 0 || seen == job.ranks) return "";
  std::string count = fmt::format("{} of {} ranks were seen to step an optimizer", seen, job.ranks);
  const bool all_started =
      std::any_of(end.observed.begin(), end.observed.end(),
                  [&](const ObservedProcess& process) { return process.world == job.ranks; });
  if (all_started) return count;
  return fmt::format("{}: start it with torchrun --nproc-per-node={}, or tune for {}: --devices {}",
                     count, job.ranks, seen == 1 ? "one device" : "as many devices", seen);
}

std::string why_nothing_measured(const CommandJob& job, const CommandEnd& end) {
  if (end.report && !end.report->problem.empty()) {
    return fmt::format("the script's report cannot be used: {}", end.report->problem);
  }
  if (end.report && !end.report->ignored.empty()) {
    return fmt::format("the script's report has no time of a step: {}",
                       fmt::join(end.report->ignored, "; "));
  }
  const RankFate* fate = fate_of_command(end);
  return fmt::format("{}; {}; it {} after {:.1f} s and {}", why_nothing_seen(job, end),
                     why_nothing_logged(end), fate == nullptr ? "ended" : how_it_ended(*fate),
                     end.run_s, last_words(fate));
}

}  // namespace planwright::launcher
