#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/trial.h"

namespace planwright {
namespace studies {

/// Optuna's trial states, by the names in the column.
enum class TrialState { running, waiting, complete, pruned, fail };

}  // namespace studies

template <>
struct Words<studies::TrialState> {
  static constexpr std::array<std::string_view, 5> kWords{"RUNNING", "WAITING", "COMPLETE",
                                                          "PRUNED", "FAIL"};
};

}  // namespace planwright

/// Candidate and Outcome in Optuna's terms, and the only place where the two meet. Parameters,
/// their order and their distributions are the same in every study for ever: Optuna's samplers drop
/// a parameter whose range changes between trials, and refuse one whose choices do.
namespace planwright::studies {

struct OptunaParameter {
  std::string name;
  double internal = 0;       ///< as stored: the integer itself, or the index of the choice
  std::string distribution;  ///< the text of `distribution_json`
  bool operator==(const OptunaParameter&) const = default;
};

/// All parameters, in stored order. An InputError if an axis lies outside its distribution.
std::vector<OptunaParameter> optuna_parameters(const Candidate& candidate);

/// The one objective's direction and name, and what the one entry of `constraints` means.
inline constexpr const char* kDirection = "MAXIMIZE";
inline constexpr const char* kObjective = "tokens/s/device";
inline constexpr const char* kConstraint = "allocated peak - capacity (bytes)";

/// What a finished trial is to Optuna.
struct OptunaResult {
  TrialState state = TrialState::fail;
  std::optional<double> value;      ///< tokens/s/device, of complete trials only
  std::optional<Bytes> constraint;  ///< complete: <= 0; out of memory: > 0; absent: fail
  bool operator==(const OptunaResult&) const = default;
};

/// complete: the whole job ran and fits `capacity`. pruned: the devices ran full; or the probe ran,
/// and its peak is above the capacity or it was only a part of the job, whose throughput is not
/// comparable. fail: everything else.
OptunaResult optuna_result(const Trial& trial, Bytes capacity);

using Attributes = std::vector<std::pair<std::string, Json>>;

/// What a claimed trial shows in the dashboard beside its parameters: derived axes, module lists,
/// knobs, stages, the prediction and why it was chosen. Keys `planwright:*`.
Attributes proposal_attributes(const Proposal& proposal);

/// The same for a finished one: how it ended and what was measured.
Attributes outcome_attributes(const Outcome& outcome);

}  // namespace planwright::studies
