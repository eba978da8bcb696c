#include "cli/tune_session.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "launcher/plan_probe.h"
#include "search/repeat.h"

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
          .probe = [this](const std::vector<Proposal>& proposals) { return probe(proposals); },
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

std::vector<Outcome> TuneSession::probe(const std::vector<Proposal>& proposals) {
  together_ = proposals.size() > 1;
  for (const Proposal& proposal : proposals) claim(proposal);
  std::vector<Outcome> outcomes = run_or_abandon(proposals);
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    if (outcomes[i].kind() == OutcomeKind::environment) give_up(proposals[i], outcomes[i]);
  }
  return outcomes;
}

void TuneSession::claim(const Proposal& proposal) {
  const std::int64_t number = store_.claim(study_, proposal);
  open_.push_back({number, proposal.candidate});
  last_beat_s_ = launcher::monotonic_s();
  console_.story(proposal_text(input_.problem, number, proposal, console_.story_paint()));
  console_.print_json(probe_started_json(input_.problem, number, proposal));
}

std::vector<Outcome> TuneSession::run_or_abandon(const std::vector<Proposal>& proposals) {
  try {
    return run(proposals);
  } catch (...) {
    for (const OpenTrial& trial : open_) store_.abandon(study_, trial.number);
    open_.clear();
    throw;
  }
}

std::string TuneSession::title() const {
  std::vector<std::int64_t> numbers;
  for (const OpenTrial& trial : open_) numbers.push_back(trial.number);
  return fmt::format("{} {}", together_ ? "probes" : "probe", fmt::join(numbers, ", "));
}

std::vector<Outcome> TuneSession::run(const std::vector<Proposal>& proposals) {
  const int rounds = together_ ? search::kRepeatFactor : 1;
  const ProbeScope& scope = proposals.front().scope;
  ProbeProgress progress(console_, title(), scope.warmup + scope.steps / rounds);
  launcher::RunOptions options = options_;
  options.progress = [&](const launcher::ProgressEvent& event) {
    progress.show(event);
    keep_alive();
  };
  std::vector<launcher::PlanJob> jobs;
  for (const Proposal& proposal : proposals) {
    jobs.push_back(
        {*input_.target, input_.problem, proposal.candidate, proposal.scope, input_.user, seed_});
  }
  try {
    return launcher::measure_plans(jobs, rounds, options);
  } catch (const launcher::Interrupted&) {
    const Failure failure{OutcomeKind::environment, "interrupted", "", std::nullopt};
    return std::vector<Outcome>(jobs.size(), {failure, {}});
  }
}

void TuneSession::give_up(const Proposal& proposal, const Outcome& outcome) {
  const std::int64_t number = take_open(proposal.candidate);
  store_.abandon(study_, number);
  if (open_.empty()) devices_ = {};
  console_.story(not_measured_text(number, outcome, together_, console_.story_paint()));
}

/// A heartbeat that cannot be written is worth a warning, not the probe that runs.
void TuneSession::keep_alive() {
  const double now = launcher::monotonic_s();
  if (now - last_beat_s_ < kBeatEveryS) return;
  last_beat_s_ = now;
  try {
    for (const OpenTrial& trial : open_) store_.beat(study_, trial.number);
  } catch (const WorldError& error) {
    console_.warning(error.what());
  }
}

std::int64_t TuneSession::take_open(const Candidate& candidate) {
  const auto found = std::find_if(open_.begin(), open_.end(), [&](const OpenTrial& trial) {
    return trial.candidate == candidate;
  });
  const std::int64_t number = found->number;
  open_.erase(found);
  return number;
}

void TuneSession::record(Trial& trial) {
  trial.number = take_open(trial.candidate);
  trial.number = store_.finish(study_, trial);
  if (open_.empty()) devices_ = {};
  known_.insert(trial.number);
  console_.story(
      finished_text(trial, together_, console_.story_paint(), rate_unit(input_.problem)));
  console_.warnings(oddities_of(trial.outcome));
  console_.print_json(probe_finished_json(input_.problem, trial));
  console_.warnings(store_.take_warnings());
}

void TuneSession::refitted(const Calibration& calibration, const search::ModelError& error) {
  console_.print_json(refit_json(calibration, error));
  if (!error.after) return;
  const std::string before =
      error.before ? fmt::format(", by the prior {:.3f}", *error.before) : "";
  console_.detail(
      fmt::format("     refit      |ln(measured / predicted)| of the step time: {:.3f}{}",
                  *error.after, before));
}

}  // namespace planwright::cli
