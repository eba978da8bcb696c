#include "cli/row_lessons.h"

#include <utility>

#include "estimator/calibrate.h"
#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"

namespace planwright::cli {
namespace {

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
  const auto peak = row.peak();
  if (!peak) return std::nullopt;
  outcome.value = measurement_of(*peak, row.memory_kind().value_or(MemoryKind::unknown));
  return outcome;
}

/// What rows of one target have shown, by origin.
struct TargetEvidence {
  TargetTraits traits;
  std::map<std::string, std::vector<estimator::Evidence>> of_origin;
};

/// Adds what the row has shown, if it would not be skipped and is known in all that counts.
void add_evidence(const MeasuredRow& row, std::map<std::string, TargetEvidence>& all) {
  const RowProblem made = problem_of(row);
  const auto& [input, candidate, place] = made.one;
  const bool varied = row.twin != 0 && !made.readings.empty();
  if (varied || !made.memory_known) return;
  if (broken_rule(input.problem, input.traits(), candidate)) return;
  const auto shown = shown_by(row, input.problem);
  if (!shown) return;
  TargetEvidence& of_target = all[input.traits().name];
  of_target.traits = input.traits();
  Trial trial;
  trial.problem_hash = problem_hash(input.problem);
  trial.candidate = candidate;
  trial.outcome = *shown;
  of_target.of_origin[origin_of(row.text("source"))].push_back(
      {input.problem, std::move(trial), stage_meant(made.peak_of, candidate)});
}

TargetLessons lessons_of(const TargetEvidence& target) {
  TargetLessons lessons;
  std::vector<Calibration> each;
  for (const auto& [origin, evidence] : target.of_origin) {
    each.push_back(estimator::calibrate_across(target.traits, evidence));
    lessons.of_origin[origin] = each.back();
  }
  lessons.common = estimator::pooled(each);
  return lessons;
}

}  // namespace

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
  for (const auto& [target, of_target] : all) lessons[target] = lessons_of(of_target);
  return lessons;
}

const Calibration* lesson_for(const RowLessons& lessons, const std::string& target,
                              const std::string& origin) {
  const auto of_target = lessons.find(target);
  if (of_target == lessons.end()) return nullptr;
  const auto own = of_target->second.of_origin.find(origin);
  return own == of_target->second.of_origin.end() ? &of_target->second.common : &own->second;
}

}  // namespace planwright::cli
