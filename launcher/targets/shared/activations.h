#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"

/// Offload of activations, for every target that has a way of it.
namespace planwright::targets {

/// Those, and each of them with activations.
std::vector<Offload> or_with_activations(std::vector<Offload> offloads);

/// The inputs of blocks that are run again, and nothing else of a forward. `who` has no other way.
Rule offloads_inputs_only(const std::string& who, const std::string& source);

/// `text` says of what.
Rule no_activation_offload(const std::string& text, const std::string& source);

}  // namespace planwright::targets
