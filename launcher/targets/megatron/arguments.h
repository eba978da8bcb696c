#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "launcher/target.h"

/// pretrain_gpt.py's arguments as one object: an option without its dashes has `true`, a value, or
/// a list of several. What decides about memory or time is written out, whatever its default.
namespace planwright::targets::megatron {

/// The model's shape, and types and kernels of its layers.
Json model_arguments(const Problem& problem);

/// What of the model has no argument, in its configuration's words; empty if all of it has.
std::vector<std::string> untold(const ModelSpec& model);

/// Degrees, batch, recomputation, optimizer and kernels of a plan.
Json plan_arguments(const Problem& problem, const Candidate& candidate);

/// Iterations of a launch for which nobody said how many it has.
constexpr int kTrialIterations = 10;

/// Whether the user's words have one of the options, as `--option` or `--option=value`.
bool gives(const launcher::EmitRequest& request, std::initializer_list<const char*> options);

/// What no plan decides and Megatron-LM does not start without, as far as the user's words do not
/// have it: data, tokenizer, learning rate, iterations, and weights to begin with. And what a probe
/// logs, and where it ends.
Json run_arguments(const launcher::EmitRequest& request);

/// As words of a command.
std::vector<std::string> words_of(const Json& arguments);

}  // namespace planwright::targets::megatron
