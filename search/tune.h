#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "estimator/spec/calibration.h"
#include "estimator/spec/trial.h"
#include "search/space.h"
#include "search/stop.h"

namespace planwright::search {

/// Median of |ln(measured / predicted)| of the step time, over all measured trials. Absent while
/// nothing is measured.
struct ModelError {
  std::optional<double> before;  ///< predicted with the prior calibration; absent for a stand-in,
                                 ///< which predicts nothing
  std::optional<double> after;   ///< predicted with the present one, which was fitted to them
};

/// Everything of the world that the loop touches.
struct TuneHooks {
  /// Begins a round: from now until its trials are recorded nobody else measures on these devices.
  /// Returns the trials that others finished since the last round, who tune the same study; may be
  /// empty.
  std::function<std::vector<Trial>()> begin_round;
  /// Runs the probes of a round and waits for their end; an outcome for each, in order. As a rule
  /// there is one. Several are repeats of contenders, whose times are to be compared: a
  /// kRepeatFactor-th of the steps of each in turn, so that a machine that drifts does it to all of
  /// them. Whoever stores trials claims one for each here, before any starts.
  std::function<std::vector<Outcome>(const std::vector<Proposal>&)> probe;
  /// Makes a finished trial safe before anything else happens, and gives it its number.
  std::function<void(Trial&)> record;
  /// After each refit; may be empty.
  std::function<void(const Calibration&, const ModelError&)> on_refit;
  std::function<double()> now;  ///< Unix time in seconds
  /// Whether a person asked to stop; may be empty. A probe that comes back as a failure while this
  /// is true was cut short: it is not a finished trial, is not recorded, and may be tried again.
  std::function<bool()> interrupted;
};

/// A probe that the host could not carry out (OutcomeKind::environment) says nothing of its
/// candidate: it is not recorded, costs none of the budget, and is tried again. So many in a row
/// end the run.
constexpr int kHostFailuresInARow = 2;

/// Proposes, probes, records, refits, until the budget is spent, the space is, or nothing that is
/// untried is likely to win. The candidates whose measurements cannot be told from the best one's
/// are then measured again for longer, together, as far as the budget goes. A run whose first
/// kFailuresAlike plans fail alike ends, if nothing was measured before either.
///
/// `history` holds the finished trials of earlier runs, in order of their numbers: they teach,
/// count as tried and count towards `Budget::probes`. A run that goes on from a history takes the
/// same decisions as the one that was interrupted would have, unless it was killed between the
/// records of one round.
///
/// The plan's `dropped` has the space's rules, and `too_large`, `cannot_win`, `out_of_memory` and
/// `failed` as of the last round. `error_before` and `error_after` are ModelError's.
Plan tune(const Problem& problem, const TargetTraits& traits, const Space& space,
          const Calibration& prior, std::vector<Trial> history, const TuneHooks& hooks,
          const Budget& budget, std::uint64_t seed);

}  // namespace planwright::search
