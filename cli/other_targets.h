#pragma once

#include <functional>
#include <string>

#include "cli/settings.h"

/// What a refusal of one target says of the others: which of them take the very request.
namespace planwright::cli {

/// Whether a request is accepted. An InputError means that it is not.
using Accepts = std::function<bool(const Settings&)>;

/// The one candidate that the settings describe, as estimate has it.
bool accepts_candidate(const Settings& settings);
/// Any candidate of the space that they describe, as plan has it.
bool accepts_space(const Settings& settings);

/// `reason`, with the targets beside the one that the settings name for which `accepts` holds of
/// otherwise the same settings; as it stands if there is none.
std::string with_other_targets(const std::string& reason, const Settings& settings,
                               const Accepts& accepts);

}  // namespace planwright::cli
