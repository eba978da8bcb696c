#include "cli/row_score.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "cli/row_problem.h"
#include "cli/row_words.h"
#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"

namespace planwright::cli {
namespace {

/// Of a rule about what this version can estimate.
constexpr std::string_view kOfEstimates = "estimates_";

/// Whether the target itself refuses such a plan. Of another broken rule it is not known whether
/// the row ran: this version does not plan for it, or the row's cells do not go together.
bool refuses(const TargetTraits& traits, const BrokenRule& broken) {
  if (broken.name.starts_with(kOfEstimates)) return false;
  return std::any_of(traits.rules.begin(), traits.rules.end(),
                     [&](const Rule& rule) { return rule.name == broken.name; });
}

std::optional<Bytes> measured_bytes(const MeasuredRow& row) {
  const auto gigabytes = row.number("peak_mem_gib");
  return gigabytes ? std::optional(Bytes{std::llround(*gigabytes * kGiB)}) : std::nullopt;
}

/// Index of the stage whose peak is meant; nothing if it is the fullest's.
std::optional<std::size_t> stage_meant(PeakOf peak_of, const Candidate& candidate) {
  if (peak_of == PeakOf::first) return 0;
  if (peak_of == PeakOf::last) return static_cast<std::size_t>(candidate.pp) - 1;
  return std::nullopt;
}

/// Of the stage that is meant, or over all of them: another may be the fullest of another kind.
void take_peaks(const Estimate& estimate, std::optional<std::size_t> meant, RowScore& score) {
  for (const StageEstimate& stage : estimate.stages) {
    if (meant && stage.stage != static_cast<int>(*meant)) continue;
    score.allocated = std::max(score.allocated, std::optional(stage.accounts.allocated()));
    score.reserved = std::max(score.reserved, stage.reserved);
    score.device = std::max(score.device, stage.device_used);
  }
}

Estimate estimate_of(const ProblemInput& input, const Candidate& candidate,
                     const RowLessons& lessons) {
  Calibration calibration =
      estimator::prior_calibration(input.problem, input.traits(), std::nullopt);
  const auto lesson = lessons.find(input.traits().name);
  if (lesson != lessons.end()) calibration = estimator::transferred(lesson->second, calibration);
  return estimator::estimate(input.problem, input.traits(), candidate, calibration);
}

void predict(const RowProblem& row, const RowLessons& lessons, RowScore& score) {
  const auto& [input, candidate, place] = row.one;
  score.peak_of = row.peak_of;
  score.assumed = row.assumed;
  if (const auto broken = broken_rule(input.problem, input.traits(), candidate)) {
    score.reason = reason_text(*broken);
    score.skipped = !refuses(input.traits(), *broken);
    if (!score.skipped) score.verdict = Verdict::invalid;
    return;
  }
  const Estimate estimate = estimate_of(input, candidate, lessons);
  score.verdict = estimate.verdict;
  score.reason = estimate.reason;
  score.fit_probability = estimate.fit_probability;
  score.step_time = estimate.step_time;
  score.tokens_per_second_per_device = estimate.tokens_per_second_per_device;
  take_peaks(estimate, stage_meant(row.peak_of, candidate), score);
}

/// One rank that saw the row's peak, in the place of its kind.
Measurement measurement_of(Bytes peak, MemoryKind kind) {
  RankMeasurement rank;
  switch (kind) {
    case MemoryKind::allocated:
      rank.whole_peak = peak;
      break;
    case MemoryKind::reserved:
      rank.reserved_peak = peak;
      break;
    case MemoryKind::nvidia_smi:
    case MemoryKind::unknown:
      rank.device_peak = peak;
      break;
  }
  Measurement measurement;
  measurement.ranks.push_back(std::move(rank));
  return measurement;
}

/// What a row has shown of memory; nothing if it does not say.
std::optional<Outcome> shown_by(const MeasuredRow& row, const Problem& problem) {
  Outcome outcome;
  if (row.outcome() == RowOutcome::oom) {
    OutOfMemory full;
    full.capacity = problem.cluster.device.memory;
    outcome.value = full;
    return outcome;
  }
  const auto peak = measured_bytes(row);
  if (!peak) return std::nullopt;
  outcome.value = measurement_of(*peak, row.memory_kind().value_or(MemoryKind::unknown));
  return outcome;
}

struct TargetEvidence {
  TargetTraits traits;
  std::vector<estimator::Evidence> evidence;
};

/// Adds what the row has shown, if it would not be skipped.
void add_evidence(const MeasuredRow& row, std::map<std::string, TargetEvidence>& all) {
  const RowProblem problem = problem_of(row);
  const auto& [input, candidate, place] = problem.one;
  if (broken_rule(input.problem, input.traits(), candidate)) return;
  const auto shown = shown_by(row, input.problem);
  if (!shown) return;
  TargetEvidence& of_target = all[input.traits().name];
  of_target.traits = input.traits();
  Trial trial;
  trial.problem_hash = problem_hash(input.problem);
  trial.candidate = candidate;
  trial.outcome = *shown;
  of_target.evidence.push_back(
      {input.problem, std::move(trial), stage_meant(problem.peak_of, candidate)});
}

}  // namespace

std::optional<Bytes> RowScore::predicted() const {
  switch (memory_kind.value_or(MemoryKind::unknown)) {
    case MemoryKind::allocated:
      return allocated;
    case MemoryKind::reserved:
      return reserved;
    case MemoryKind::nvidia_smi:
    case MemoryKind::unknown:
      break;
  }
  return device;
}

std::optional<double> RowScore::error() const {
  const auto expected = predicted();
  if (!expected || !measured) return std::nullopt;
  return static_cast<double>(expected->value) / static_cast<double>(measured->value) - 1;
}

RowLessons learn_from(const std::vector<MeasuredRow>& rows) {
  std::map<std::string, TargetEvidence> all;
  for (const MeasuredRow& row : rows) {
    if (!row.fault.empty()) continue;
    try {
      add_evidence(row, all);
    } catch (const InputError&) {  // it would be skipped, with this as its reason
    }
  }
  RowLessons lessons;
  for (const auto& [target, of_target] : all) {
    lessons[target] = estimator::calibrate_across(of_target.traits, of_target.evidence);
  }
  return lessons;
}

RowScore score_row(const MeasuredRow& row, const RowLessons& lessons) {
  RowScore score;
  score.line = row.line;
  score.id = row.id;
  score.source = row.text("source");
  score.reason = row.fault;
  score.skipped = !row.fault.empty();
  if (score.skipped) return score;
  score.target = target_of(row);
  score.measured = measured_bytes(row);
  score.memory_kind = row.memory_kind();
  score.outcome = row.outcome();
  try {
    predict(problem_of(row), lessons, score);
  } catch (const InputError& error) {
    InputFault fault = error.fault();
    fault.file.clear();  // column and value are the row's, whatever the general rule's message says
    score.skipped = true;
    score.reason = InputError(fault).what();
  }
  return score;
}

}  // namespace planwright::cli
