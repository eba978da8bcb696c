#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/spec/candidate.h"
#include "estimator/spec/json.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "estimator/spec/words.h"
#include "launcher/user_command.h"

namespace planwright::launcher {

enum class EvidenceKind { predicted, measured };

/// Why a plan is believed in. Figures that are not known are absent.
struct Evidence {
  EvidenceKind kind = EvidenceKind::predicted;
  std::string study;
  std::optional<std::int64_t> trial;
  std::optional<double> step_time_s;
  std::optional<double> tokens_per_second_per_device;
  std::optional<Bytes> allocated_peak;
  bool operator==(const Evidence&) const = default;
};

/// A plan as a file: what `emit` writes and `--plan` reads.
struct PlanFile {
  Problem problem;
  Candidate candidate;
  Evidence evidence;
  bool operator==(const PlanFile&) const = default;
};

/// The plan of a trial; measured if the trial's outcome is a Measurement, else predicted.
PlanFile plan_of(const Problem& problem, const Trial& trial, const std::string& study);

Json to_json(const PlanFile& plan);
/// The same with the user's command and environment, where there are any.
Json plan_file_json(const PlanFile& plan, const UserCommand& user);
/// An InputError if it is not a plan, or one that cannot be computed with.
PlanFile plan_file_from_json(const Json& json, const std::string& source);

/// Reads a plan file. An InputError that names the file if it is missing, not a regular file, too
/// long, no JSON, or not a plan.
PlanFile load_plan_file(const std::string& path);
/// The command in it; without words if it has none.
UserCommand load_plan_command(const std::string& path);

}  // namespace planwright::launcher

namespace planwright {
template <>
struct Words<launcher::EvidenceKind> {
  static constexpr std::array<std::string_view, 2> kWords{"predicted", "measured"};
};
}  // namespace planwright
