#include "cli/tune_session.h"

#include <fmt/core.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/devices_turn.h"
#include "cli/print_probe.h"
#include "cli/print_tune.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "estimator/spec/error.h"
#include "launcher/clock.h"

namespace planwright::cli {
namespace {

/// Optuna's workers look for heartbeats of some minutes at most; a write a minute costs nothing.
constexpr double kBeatEveryS = 60;

double unix_now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

TuneSession::TuneSession(const ProblemInput& input, studies::Store& store, studies::StudyRef study,
                         const std::vector<Trial>& history, launcher::RunOptions options,
                         const Console& console, std::uint64_t seed)
    : input_(input),
      store_(store),
      study_(std::move(study)),
      options_(std::move(options)),
      console_(console),
      seed_(seed) {
  for (const Trial& trial : history) known_.insert(trial.number);
}

search::TuneHooks TuneSession::hooks() {
  return {.begin_round = [this] { return begin_round(); },
          .probe = [this](const Proposal& proposal) { return probe(proposal); },
          .record = [this](Trial& trial) { record(trial); },
          .on_refit = [this](const Calibration& calibration,
                             const search::ModelError& error) { refitted(calibration, error); },
          .now = unix_now,
          .interrupted = interrupted};
}

std::vector<Trial> TuneSession::begin_round() {
  if (!devices_.held()) {
    try {
      devices_ = await_devices(console_);
    } catch (const launcher::Interrupted&) {
      return {};
    }
  }
  std::vector<Trial> news;
  for (Trial& trial : studies::conclusive_trials(store_, study_)) {
    if (known_.insert(trial.number).second) news.push_back(std::move(trial));
  }
  return news;
}

Outcome TuneSession::probe(const Proposal& proposal) {
  number_ = store_.claim(study_, proposal);
  last_beat_s_ = launcher::monotonic_s();
  console_.story(proposal_text(number_, proposal, console_.story_paint()));
  console_.print_json(probe_started_json(number_, proposal));
  Outcome outcome = run(proposal);
  if (outcome.kind() == OutcomeKind::environment) {
    store_.abandon(study_, number_);
    devices_ = {};
    console_.story(
        fmt::format("     not measured: {}", outcome_text(outcome, console_.story_paint())));
  }
  return outcome;
}

Outcome TuneSession::run(const Proposal& proposal) {
  const int steps = proposal.scope.warmup + proposal.scope.steps;
  ProbeProgress progress(console_, fmt::format("probe {}", number_), steps);
  launcher::RunOptions options = options_;
  options.progress = [&](const launcher::ProgressEvent& event) {
    progress.show(event);
    keep_alive();
  };
  const auto job = launcher::make_train_job(input_.problem, proposal.candidate, proposal.scope,
                                            input_.traits(), seed_);
  try {
    return launcher::run_probe(job, options);
  } catch (const launcher::Interrupted&) {
    return {Failure{OutcomeKind::environment, "interrupted", "", std::nullopt}, {}};
  }
}

/// A heartbeat that cannot be written is worth a warning, not the probe that runs.
void TuneSession::keep_alive() {
  const double now = launcher::monotonic_s();
  if (now - last_beat_s_ < kBeatEveryS) return;
  last_beat_s_ = now;
  try {
    store_.beat(study_, number_);
  } catch (const WorldError& error) {
    console_.warning(error.what());
  }
}

void TuneSession::record(Trial& trial) {
  trial.number = number_;
  trial.number = store_.finish(study_, trial);
  known_.insert(trial.number);
  devices_ = {};
  console_.story(finished_text(trial, console_.story_paint()));
  if (const auto text = disturbance_of(trial.outcome)) console_.warning(*text);
  console_.print_json(probe_finished_json(trial));
  for (const std::string& warning : store_.take_warnings()) console_.warning(warning);
}

void TuneSession::refitted(const Calibration& calibration, const search::ModelError& error) {
  console_.print_json(refit_json(calibration, error));
  if (error.before && error.after) {
    console_.detail(
        fmt::format("     refit      |ln(measured / predicted)| of the step time: {:.3f}, "
                    "by the prior {:.3f}",
                    *error.after, *error.before));
  }
}

}  // namespace planwright::cli
