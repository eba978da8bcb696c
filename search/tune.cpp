#include "search/tune.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <variant>

#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "search/evidence.h"
#include "search/heed.h"
#include "search/propose.h"
#include "search/prune.h"
#include "search/rank.h"
#include "search/repeat.h"
#include "search/streak.h"

namespace planwright::search {
namespace {

constexpr std::size_t kRunnersUp = 5;

/// What stays the same throughout a run.
struct Setting {
  const Problem& problem;
  const TargetTraits& traits;
  const Space& space;
  const Calibration& prior;
  const Budget& budget;
  std::uint64_t seed;
  std::string problem_hash;
  std::vector<estimator::Quantities> quantities;
};

/// What is known at the start of a round. All of it follows from the history.
struct Round {
  Calibration calibration;
  estimator::Pricer pricer;
  Ranking ranking;
  Evidence evidence;
  Pruned pruned;
  Outlook outlook;
};

Round assess(const Setting& setting, const std::vector<Trial>& history) {
  Calibration calibration =
      estimator::calibrate(setting.problem, setting.traits, setting.prior, history);
  estimator::Pricer pricer(setting.problem, setting.traits, calibration);
  Ranking ranking = rank(setting.space, setting.quantities, pricer);
  Evidence evidence = gather(setting.space, history, setting.budget.scope);
  heed_out_of_memory(ranking, evidence);
  heed_surprises(ranking, history);
  if (setting.problem.model.stand_in) heed_shape(ranking, setting.space, evidence, history);
  Pruned pruned = prune(ranking, evidence);
  const Outlook ahead = outlook(ranking, evidence, pruned, setting.budget.margin);
  return {std::move(calibration), std::move(pricer), std::move(ranking),
          std::move(evidence),    std::move(pruned), ahead};
}

int probes_left(const Budget& budget, const std::vector<Trial>& history) {
  return budget.probes ? *budget.probes - static_cast<int>(history.size()) : kMostRepeats;
}

/// The next probes, or why there are none.
std::variant<std::vector<Choice>, std::string> decide(const Setting& setting, const Round& round,
                                                      const std::vector<Trial>& history,
                                                      double seconds) {
  const Budget& budget = setting.budget;
  if (const auto spent = budget_spent(budget, static_cast<int>(history.size()), seconds)) {
    return *spent;
  }
  const auto nothing = nothing_to_gain(budget, round.pruned, round.outlook);
  if (!nothing) {
    return std::vector{
        *propose(round.ranking, round.evidence, round.pruned, budget.scope, setting.seed)};
  }
  auto repeats = propose_repeats(setting.space, round.evidence, history, budget.scope,
                                 budget.margin, probes_left(budget, history));
  if (!repeats.empty()) return repeats;
  return *nothing;
}

std::vector<Proposal> proposals_for(const Setting& setting, const Round& round,
                                    const std::vector<Choice>& choices) {
  std::vector<Proposal> proposals;
  for (const Choice& choice : choices) {
    const Candidate& candidate = setting.space.legal[choice.index];
    proposals.push_back({candidate, choice.scope,
                         round.pricer.estimate(candidate, setting.quantities[choice.index]),
                         choice.why, choice.improvement});
  }
  return proposals;
}

std::vector<Trial> run_probes(const Setting& setting, const std::vector<Proposal>& proposals,
                              const TuneHooks& hooks) {
  const double started = hooks.now();
  std::vector<Outcome> outcomes = hooks.probe(proposals);
  const double finished = hooks.now();
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    const Proposal& proposal = proposals[i];
    trials.push_back({.number = -1,
                      .problem_hash = setting.problem_hash,
                      .candidate = proposal.candidate,
                      .scope = proposal.scope,
                      .estimate = proposal.estimate,
                      .why = proposal.why,
                      .outcome = std::move(outcomes.at(i)),
                      .started_unix_s = started,
                      .finished_unix_s = finished});
  }
  return trials;
}

/// Takes out what says nothing of its candidate: what the host could not carry out, and what was
/// cut short. Returns what the host could not do, if that was it.
std::string drop_inconclusive(std::vector<Trial>& trials, bool interrupted) {
  std::string host_failure;
  std::erase_if(trials, [&](const Trial& trial) {
    const Failure* const failure = trial.outcome.failure();
    if (failure == nullptr) return false;
    if (failure->kind == OutcomeKind::environment) host_failure = failure->detail;
    return interrupted || failure->kind == OutcomeKind::environment;
  });
  return host_failure;
}

/// Whether others finished something.
bool take_news(const TuneHooks& hooks, std::vector<Trial>& history) {
  if (!hooks.begin_round) return false;
  std::vector<Trial> news = hooks.begin_round();
  std::move(news.begin(), news.end(), std::back_inserter(history));
  return !news.empty();
}

ModelError model_error(const Setting& setting, const Calibration& calibration,
                       const std::vector<Trial>& history) {
  const auto median = [&](const Calibration& each) {
    return estimator::median_time_error(setting.problem, setting.traits, each, history);
  };
  const bool predicts = !setting.problem.model.stand_in;
  return {predicts ? median(setting.prior) : std::nullopt, median(calibration)};
}

Plan conclude(const Setting& setting, const Round& round, const std::vector<Trial>& history) {
  Plan plan;
  for (const std::size_t candidate : round.evidence.measured) {
    const Trial& trial = history[*round.evidence.seen[candidate].measured];
    if (!plan.winner) {
      plan.winner = trial;
    } else if (plan.runners_up.size() < kRunnersUp) {
      plan.runners_up.push_back(trial);
    }
  }
  plan.dropped = setting.space.dropped;
  for (const auto& [reason, count] : round.pruned.dropped) plan.dropped[reason] += count;
  plan.counted = setting.space.counted;
  plan.probes = static_cast<int>(history.size());
  plan.gain_left = round.outlook.gain_left;
  const ModelError error = model_error(setting, round.calibration, history);
  plan.error_before = error.before;
  plan.error_after = error.after;
  return plan;
}

/// Why the loop ended.
struct Ending {
  std::string stopped;
  std::string host_failure;
};

Ending loop(const Setting& setting, Round& round, std::vector<Trial>& history,
            const TuneHooks& hooks) {
  const double began = hooks.now();
  const auto interrupted = [&] { return hooks.interrupted && hooks.interrupted(); };
  int host_failures = 0;
  Streak streak;
  while (!interrupted()) {
    if (take_news(hooks, history)) round = assess(setting, history);
    if (interrupted()) break;
    const auto next = decide(setting, round, history, hooks.now() - began);
    if (const auto* reason = std::get_if<std::string>(&next)) return {*reason, ""};

    std::vector<Trial> trials = run_probes(
        setting, proposals_for(setting, round, std::get<std::vector<Choice>>(next)), hooks);
    const bool cut_short = interrupted();
    const std::string host_failure = drop_inconclusive(trials, cut_short);
    if (trials.empty()) {
      if (cut_short) break;
      if (++host_failures < kHostFailuresInARow) continue;
      return {"this host cannot probe", host_failure};
    }
    host_failures = 0;
    for (Trial& trial : trials) {
      hooks.record(trial);
      streak.add(trial);
    }
    std::move(trials.begin(), trials.end(), std::back_inserter(history));
    round = assess(setting, history);
    if (hooks.on_refit) {
      hooks.on_refit(round.calibration, model_error(setting, round.calibration, history));
    }
    if (round.evidence.measured.empty() && streak.length() >= kFailuresAlike) {
      return {fmt::format("{} plans failed alike", kFailuresAlike), ""};
    }
  }
  return {"interrupted", ""};
}

}  // namespace

Plan tune(const Problem& problem, const TargetTraits& traits, const Space& space,
          const Calibration& prior, std::vector<Trial> history, const TuneHooks& hooks,
          const Budget& budget, std::uint64_t seed) {
  const double began = hooks.now();
  const Setting setting{problem,
                        traits,
                        space,
                        prior,
                        budget,
                        seed,
                        problem_hash(problem),
                        quantify(problem, traits, space)};
  Round round = assess(setting, history);
  Ending ending = loop(setting, round, history, hooks);

  Plan plan = conclude(setting, round, history);
  plan.seconds = hooks.now() - began;
  plan.stopped = std::move(ending.stopped);
  plan.host_failure = std::move(ending.host_failure);
  return plan;
}

}  // namespace planwright::search
