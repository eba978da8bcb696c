#include "launcher/turns.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "estimator/spec/median.h"
#include "launcher/disturbance.h"

namespace planwright::launcher {
namespace {

/// `steps` in `rounds` parts, the longer ones first.
int steps_of_round(int steps, int rounds, int round) {
  return steps / rounds + (round < steps % rounds ? 1 : 0);
}

std::vector<Turn> turns_of(const std::vector<int>& steps, int rounds) {
  std::vector<Turn> turns;
  for (int round = 0; round < rounds; ++round) {
    std::vector<Turn> of_round;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      of_round.push_back({i, steps_of_round(steps[i], rounds, round)});
    }
    if (round % 2 == 1) std::reverse(of_round.begin(), of_round.end());
    turns.insert(turns.end(), of_round.begin(), of_round.end());
  }
  return turns;
}

/// What was said of a turn, or can be said of all of them.
std::optional<std::string> disturbance_of(const std::vector<Outcome>& turns,
                                          const Measurement& measured) {
  for (const Outcome& turn : turns) {
    const auto found = turn.environment.find(kDisturbance);
    if (found != turn.environment.end()) return found->second;
  }
  return disturbance_text(std::nullopt, measured.steps_s);
}

Outcome outcome_of(const std::vector<Outcome>& turns) {
  if (turns.size() == 1) return turns.front();
  std::vector<Measurement> parts;
  for (const Outcome& turn : turns) {
    if (turn.measurement() == nullptr) return turn;
    parts.push_back(*turn.measurement());
  }
  Outcome outcome{pooled(parts), turns.front().environment};
  if (const auto text = disturbance_of(turns, *outcome.measurement())) {
    outcome.environment[kDisturbance] = *text;
  }
  return outcome;
}

template <class T>
void append(std::vector<T>& to, const std::vector<T>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// The time split is that of a mean step. `rank` does not have the part's steps yet.
void add_time(RankMeasurement& rank, const RankMeasurement& part) {
  if (!rank.time || !part.time) return rank.time.reset();
  const auto before = static_cast<double>(rank.steps_s.size());
  const double share = before / (before + static_cast<double>(part.steps_s.size()));
  for (Seconds TimeSplit::*each :
       {&TimeSplit::compute, &TimeSplit::recompute, &TimeSplit::communication, &TimeSplit::bubble,
        &TimeSplit::optimizer, &TimeSplit::offload}) {
    (*rank.time).*each = share * ((*rank.time).*each) + (1 - share) * ((*part.time).*each);
  }
}

void add(RankMeasurement& rank, const RankMeasurement& part) {
  rank.loaded = part.loaded;
  rank.step_end = part.step_end;
  if (part.allocated_peak() > rank.allocated_peak()) {
    rank.peak = part.peak;
    rank.peak_phase = part.peak_phase;
  }
  if (part.tensor_peak() > rank.tensor_peak()) {
    rank.tensors = part.tensors;
    rank.tensors_phase = part.tensors_phase;
  }
  rank.whole_peak = std::max(rank.whole_peak, part.whole_peak);
  rank.held = part.held;
  rank.reserved_peak = std::max(rank.reserved_peak, part.reserved_peak);
  rank.device_peak = std::max(rank.device_peak, part.device_peak);
  rank.rss_peak = std::max(rank.rss_peak, part.rss_peak);
  add_time(rank, part);
  append(rank.steps_s, part.steps_s);
}

}  // namespace

Measurement pooled(const std::vector<Measurement>& parts) {
  Measurement all = parts.front();
  for (auto part = parts.begin() + 1; part != parts.end(); ++part) {
    const std::size_t ranks = std::min(all.ranks.size(), part->ranks.size());
    for (std::size_t i = 0; i < ranks; ++i) add(all.ranks[i], part->ranks[i]);
    append(all.steps_s, part->steps_s);
    append(all.losses, part->losses);
  }
  const double tokens_per_device = all.tokens_per_second_per_device * all.step_time_s;
  all.step_time_s = median(all.steps_s);
  all.tokens_per_second_per_device = tokens_per_device / all.step_time_s;
  return all;
}

std::vector<Outcome> in_turns(const std::vector<int>& steps, int rounds, const RunTurns& run) {
  std::vector<std::vector<Outcome>> ended(steps.size());
  std::vector<Turn> left = turns_of(steps, rounds);
  while (!left.empty()) {
    const std::vector<Outcome> some = run(left);
    for (std::size_t i = 0; i < some.size(); ++i) ended[left[i].job].push_back(some[i]);
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(some.size()));
    std::erase_if(left, [&](const Turn& turn) {
      const auto& turns = ended[turn.job];
      return !turns.empty() && turns.back().kind() != OutcomeKind::ok;
    });
  }
  std::vector<Outcome> outcomes;
  for (const std::vector<Outcome>& turns : ended) outcomes.push_back(outcome_of(turns));
  return outcomes;
}

std::vector<Outcome> run_in_turns(const std::vector<probes::TrainJob>& jobs, int rounds,
                                  const RunOptions& options) {
  RunOptions of_turn = options;
  of_turn.deadline_s /= rounds;
  std::vector<int> steps;
  for (const probes::TrainJob& job : jobs) steps.push_back(job.scope.steps);
  return in_turns(steps, rounds, [&](const std::vector<Turn>& turns) {
    std::vector<probes::TrainJob> parts;
    for (const Turn& turn : turns) {
      parts.push_back(jobs[turn.job]);
      parts.back().scope.steps = turn.steps;
    }
    return run_first_probes(parts, of_turn);
  });
}

}  // namespace planwright::launcher
