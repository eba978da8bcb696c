#include "estimator/observations.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "estimator/spec/rank_grid.h"

namespace planwright::estimator {
namespace {

void add(std::vector<Fact>& facts, Fact::What what, double value, Fact fact = {}) {
  if (!(value > 0)) return;
  fact.what = what;
  fact.log_value = std::log(value);
  facts.push_back(fact);
}

double worst(const Measurement& measured, std::optional<Bytes> RankMeasurement::*figure) {
  Bytes most;
  for (const RankMeasurement& rank : measured.ranks) {
    most = std::max(most, (rank.*figure).value_or(Bytes{}));
  }
  return static_cast<double>(most.value);
}

/// What the fullest rank keeps of both; 0 if that is not known.
double kept_states(const Measurement& measured) {
  Bytes most;
  for (const RankMeasurement& rank : measured.ranks) {
    if (!rank.held || !rank.held->parameters || !rank.held->optimizer) continue;
    most = std::max(most, *rank.held->parameters + *rank.held->optimizer);
  }
  return static_cast<double>(most.value);
}

Fact bounded(Fact::Bound bound) {
  Fact fact;
  fact.bound = bound;
  return fact;
}

/// An accelerator that held all of it had room for what is needed.
std::vector<Fact> facts_of(const Measurement& measured, const Problem& problem) {
  std::vector<Fact> facts;
  add(facts, Fact::What::time, measured.step_time_s);
  add(facts, Fact::What::allocated, static_cast<double>(measured.allocated_peak().value));
  add(facts, Fact::What::reserved, worst(measured, &RankMeasurement::reserved_peak));
  add(facts, Fact::What::device, worst(measured, &RankMeasurement::device_peak));
  if (problem.model.stand_in) add(facts, Fact::What::states, kept_states(measured));
  const DeviceSpec& device = problem.cluster.device;
  if (device.kind == DeviceKind::cuda) {
    add(facts, Fact::What::needed, static_cast<double>(device.memory.value),
        bounded(Fact::Bound::at_most));
  }
  return facts;
}

/// The phase's peak is at least what was allocated and asked for; of an accelerator's memory more
/// was needed besides than it has.
std::vector<Fact> facts_of(const OutOfMemory& full, const Candidate& candidate, DeviceKind kind) {
  Fact bound = bounded(Fact::Bound::at_least);
  bound.phase = full.phase;
  if (full.phase) bound.stage = static_cast<std::size_t>(place_of(candidate, full.rank).pp);
  bound.in_product = full.account == Account::workspace;
  std::vector<Fact> facts;
  const Bytes wanted = full.allocated + full.requested;
  add(facts, Fact::What::allocated, static_cast<double>(wanted.value), bound);
  if (kind == DeviceKind::cuda) {
    add(facts, Fact::What::needed, static_cast<double>(full.capacity.value), bound);
  }
  return facts;
}

std::vector<Fact> facts_of(const Trial& trial, const Problem& problem) {
  if (const Measurement* measured = trial.outcome.measurement()) {
    return facts_of(*measured, problem);
  }
  if (const OutOfMemory* full = trial.outcome.out_of_memory()) {
    return facts_of(*full, trial.candidate, problem.cluster.device.kind);
  }
  return {};
}

}  // namespace

Observations observations_of(const Problem& problem, const TargetTraits& traits,
                             std::vector<Trial> trials) {
  std::stable_sort(trials.begin(), trials.end(),
                   [](const Trial& a, const Trial& b) { return a.number < b.number; });
  const std::string hash = problem_hash(problem);
  QuantityTable table(problem, traits);
  Observations seen;
  for (const Trial& trial : trials) {
    if (trial.problem_hash != hash || trial.scope.kind != ScopeKind::full) continue;
    const std::vector<Fact> facts = facts_of(trial, problem);
    if (facts.empty()) continue;
    for (Fact fact : facts) {
      fact.trial = seen.quantities.size();
      seen.facts.push_back(fact);
    }
    seen.quantities.push_back(table.quantify(trial.candidate));
  }
  return seen;
}

}  // namespace planwright::estimator
