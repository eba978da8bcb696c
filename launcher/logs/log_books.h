#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "launcher/logs/last_rows.h"
#include "launcher/logs/line_figures.h"
#include "launcher/logs/log_summary.h"

namespace planwright::launcher {

/// Adds up what the lines of a log say, in memory that does not grow with the log.
class LogBooks {
 public:
  using Rank = std::optional<int>;

  void add(Rank rank, const LineFigures& figures, std::int64_t at_line);
  /// A part of the allocated peak that the pattern of this number has found.
  void add_peak_part(Rank rank, std::size_t pattern, const Stated& bytes);
  /// Kept if it is the rank's first, or tells more than the one that is.
  void add_failure(Rank rank, LoggedFailure failure);

  std::int64_t steps_seen() const { return steps_.added(); }
  bool has_timed_a_step() const { return summary_.last_timed_line > 0; }
  LogSummary close(std::int64_t lines, std::int64_t bytes);

 private:
  struct LastStep {
    std::int64_t step = 0;
    std::int64_t number = 0;  ///< in the order of all steps seen
  };

  bool of_another_loop(const LineFigures& figures);
  void add_step(Rank rank, const LineFigures& figures);
  void add_rates(Rank rank, const LineFigures& figures);
  void add_means(const LineFigures& figures);
  void add_loss(Rank rank, const LineFigures& figures);
  void add_memory(Rank rank, const LineFigures& figures);
  StepLine* known_step(const StepLine& line);
  bool has_room_for(Rank rank) const;

  LogSummary summary_;
  LastRows<StepLine> steps_{kMostLoggedSteps};
  LastRows<RateLine> rates_{kMostLoggedSteps};
  LastRows<LossLine> losses_{kMostLoggedSteps};
  std::map<Rank, LastStep> last_steps_;
  std::map<std::pair<Rank, std::size_t>, Bytes> peak_parts_;
  std::optional<std::int64_t> steps_total_;
};

}  // namespace planwright::launcher
