#pragma once

#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "launcher/target.h"

namespace planwright::targets::megatron_deepspeed {

/// pretrain_gpt.py's arguments as one object: an option without its dashes has `true` or a value.
/// What decides about memory or time is written out, whatever its default.
Json arguments(const launcher::EmitRequest& request);

/// DeepSpeed's configuration beside them.
Json configuration(const Problem& problem, const Candidate& candidate, bool probe);

/// What of the model has no argument, in words; empty if all of it has.
std::vector<std::string> untold(const ModelSpec& model);

/// As words of a command.
std::vector<std::string> words_of(const Json& arguments);

/// Iterations of a launch for which nobody said how many it has.
constexpr int kTrialIterations = 10;

}  // namespace planwright::targets::megatron_deepspeed
