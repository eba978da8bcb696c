#include "cli/row_score.h"

#include <fmt/core.h>

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

/// Of rules about what this version can estimate, and what it can write of a model.
constexpr std::string_view kOfEstimates = "estimates_", kOfFiles = "writes_";

/// How much more than the least the most may be, over the ways that a row may have run in, for the
/// figure between them to be an answer: it is then off by an eighth at the most.
constexpr double kOneAnswer = 0.25;

/// A peak that is reserved, or that a driver reports, is what is allocated, with what the allocator
/// keeps beside it and the context. Of 140 runs of which others published both kinds all are in
/// there: what is kept goes up to 0.7 of what is allocated, by how lengths vary and how full the
/// device is, and the context with its libraries to 1.5 GiB.
constexpr double kLeastBeside = 0.97, kMostBeside = 1.8, kMostContext_gib = 1.5;

/// Whether the target itself refuses such a plan. Of another broken rule it is not known whether
/// the row ran: this version does not plan for it, or the row's cells do not go together.
bool refuses(const TargetTraits& traits, const BrokenRule& broken) {
  if (broken.name.starts_with(kOfEstimates) || broken.name.starts_with(kOfFiles)) return false;
  return std::any_of(traits.rules.begin(), traits.rules.end(),
                     [&](const Rule& rule) { return rule.name == broken.name; });
}

/// A plan that the target refuses is invalid, unless an argument that no column is of makes it
/// legal.
void judge_broken(const BrokenRule& broken, const RowProblem& row, RowScore& score) {
  score.reason = reason_text(broken);
  const auto unsaid = unsaid_column(row.one.input.traits().name, broken.name);
  if (unsaid) score.reason += "; missing column: " + *unsaid;
  score.skipped = unsaid || !row.memory_known || !refuses(row.one.input.traits(), broken);
  if (!score.skipped) score.verdict = Verdict::invalid;
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

/// `lesson` is nullptr where nothing was learned.
Estimate estimate_of(const ProblemInput& input, const Candidate& candidate,
                     const Calibration* lesson) {
  Calibration calibration =
      estimator::prior_calibration(input.problem, input.traits(), std::nullopt);
  if (lesson != nullptr) calibration = estimator::transferred(*lesson, calibration);
  return estimator::estimate(input.problem, input.traits(), candidate, calibration);
}

Bytes allocated_peak(const Estimate& estimate, std::optional<std::size_t> seen) {
  Bytes peak{0};
  for (const StageEstimate& stage : estimate.stages) {
    if (seen && stage.stage != static_cast<int>(*seen)) continue;
    peak = std::max(peak, stage.accounts.allocated());
  }
  return peak;
}

/// Over the ways that a row may have run in.
struct Readings {
  Bytes least, most;
  bool always_fits = false, never_fits = false;

  /// As far from the one as from the other, as a factor.
  Bytes middle() const {
    if (least == most) return least;
    return Bytes{std::llround(std::sqrt(static_cast<double>(least.value)) *
                              std::sqrt(static_cast<double>(most.value)))};
  }
};

/// Where the table has such a row twice, something was varied that no column tells: then all ways
/// count that its versions leave open. Else it is taken to have run as its framework does.
Readings readings_of(const RowProblem& row, bool varied, const Calibration* lesson,
                     const Estimate& usual, std::optional<std::size_t> seen) {
  const bool fits = usual.verdict == Verdict::fits;
  Readings all{allocated_peak(usual, seen), allocated_peak(usual, seen), fits, !fits};
  if (!varied) return all;
  const ProblemInput& input = row.one.input;
  for (const Candidate& reading : row.readings) {
    if (broken_rule(input.problem, input.traits(), reading)) continue;
    const Estimate other = estimate_of(input, reading, lesson);
    all.least = std::min(all.least, allocated_peak(other, seen));
    all.most = std::max(all.most, allocated_peak(other, seen));
    all.always_fits = all.always_fits && other.verdict == Verdict::fits;
    all.never_fits = all.never_fits && other.verdict == Verdict::too_large;
  }
  return all;
}

/// What fits in no way is known not to, however far apart they are.
bool are_an_answer(const Readings& readings, bool memory_known) {
  if (memory_known && readings.never_fits) return true;
  const auto least = static_cast<double>(readings.least.value);
  const bool near = static_cast<double>(readings.most.value) <= (1 + kOneAnswer) * least;
  return near && (!memory_known || readings.always_fits);
}

std::string in_gib(Bytes bytes) { return fmt::format("{:.1f} GiB", gib(bytes)); }

void skip(std::string reason, RowScore& score) {
  score.skipped = true;
  score.reason = std::move(reason);
}

/// Of what is allocated the middle of the readings; the other kinds are as much more as they were.
void take_estimate(const Estimate& estimate, const Readings& readings,
                   std::optional<std::size_t> seen, bool memory_known, RowScore& score) {
  score.step_time = estimate.step_time;
  score.tokens_per_second_per_device = estimate.tokens_per_second_per_device;
  take_peaks(estimate, seen, score);
  const Bytes usual = allocated_peak(estimate, seen), middle = readings.middle();
  for (auto* peak : {&score.allocated, &score.reserved, &score.device}) {
    if (*peak) *peak = Bytes{(*peak)->value - usual.value + middle.value};
  }
  if (!memory_known) return;
  score.verdict = estimate.verdict;
  score.reason = estimate.reason;
  score.fit_probability = estimate.fit_probability;
}

void predict(const RowProblem& row, std::size_t twin, const RowLessons& lessons, RowScore& score) {
  const auto& [input, candidate, place] = row.one;
  const Calibration* lesson = lesson_for(lessons, input.traits().name, origin_of(score.source));
  score.peak_of = row.peak_of;
  score.assumed = row.assumed;
  if (const auto broken = broken_rule(input.problem, input.traits(), candidate)) {
    judge_broken(*broken, row, score);
    return;
  }
  const Estimate estimate = estimate_of(input, candidate, lesson);
  const auto seen = stage_meant(row.peak_of, candidate);
  const Readings readings = readings_of(row, twin != 0, lesson, estimate, seen);
  score.least = readings.least;
  score.most = readings.most;
  if (!are_an_answer(readings, row.memory_known)) {
    skip(fmt::format("line {} has the same cells, and what its kernels leave open is from {} to "
                     "{}; missing column: kernels",
                     twin, in_gib(readings.least), in_gib(readings.most)),
         score);
    return;
  }
  if (readings.least != readings.most) score.assumed.emplace_back("the middle of its readings");
  take_estimate(estimate, readings, seen, row.memory_known, score);
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

std::optional<BytesRange> RowScore::device_range() const {
  if (skipped || !least || !most) return std::nullopt;
  const auto scaled = [](Bytes bytes, double factor) {
    return Bytes{std::llround(static_cast<double>(bytes.value) * factor)};
  };
  const Bytes context{std::llround(kMostContext_gib * kGiB)};
  return BytesRange{scaled(*least, kLeastBeside), scaled(*most, kMostBeside) + context};
}

std::optional<bool> RowScore::in_range() const {
  const auto range = device_range();
  const bool beside = memory_kind.value_or(MemoryKind::unknown) != MemoryKind::allocated;
  if (!range || !measured || !beside) return std::nullopt;
  return range->low <= *measured && *measured <= range->high;
}

std::optional<bool> RowScore::between_readings() const {
  if (!least || !most || !measured || memory_kind != MemoryKind::allocated) return std::nullopt;
  return *least <= *measured && *measured <= *most;
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
  score.measured = row.peak();
  score.memory_kind = row.memory_kind();
  score.outcome = row.outcome();
  try {
    predict(problem_of(row), row.twin, lessons, score);
  } catch (const InputError& error) {
    InputFault fault = error.fault();
    fault.file.clear();  // column and value are the row's, whatever the general rule's message says
    score.skipped = true;
    score.reason = InputError(fault).what();
  }
  return score;
}

}  // namespace planwright::cli
