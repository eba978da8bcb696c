#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "launcher/targets/megatron/arguments.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/megatron/versions.h"
#include "launcher/targets/shared/launch.h"

namespace planwright::targets::megatron {
namespace {

using launcher::EmitRequest;

void add_data(Json& json, const EmitRequest& request) {
  if (!gives(request, {"--data-path", "--data-args-path", "--train-data-path",
                       "--per-split-data-args-path", "--mock-data"})) {
    json["mock-data"] = true;
  }
  // Else every micro-batch has a matrix of the sequence's length squared.
  if (!te_modules(request.plan.candidate).gets_masks) {
    json["no-create-attention-mask-in-dataloader"] = true;
  }
  if (gives(request, {"--tokenizer-type"})) return;
  const Problem& problem = request.plan.problem;
  json["tokenizer-type"] = "NullTokenizer";
  json["vocab-size"] = problem.model.vocab - (adds_a_token(problem) ? 1 : 0);
}

void add_length(Json& json, const EmitRequest& request) {
  if (!gives(request, {"--train-iters", "--train-samples"})) {
    json["train-iters"] = request.steps > 0 ? request.steps : kTrialIterations;
  }
  if (!gives(request, {"--lr"})) json["lr"] = 1e-4;
}

/// Read where --load has no checkpoint yet, and then without the optimizer's states and from the
/// first iteration on. Source: megatron/training/checkpointing.py, load_checkpoint.
void add_weights(Json& json, const EmitRequest& request) {
  if (!begins_with_weights(request) || gives(request, {"--load", "--pretrained-checkpoint"}))
    return;
  json["pretrained-checkpoint"] = kCheckpointPlaceholder;
}

/// Without evaluations between the steps.
void add_probe(Json& json, const EmitRequest& request) {
  json["exit-interval"] = request.steps;
  json["eval-iters"] = 0;
  json["log-interval"] = 1;
  if (logs_memory_again(request.plan.problem)) json["log-memory-interval"] = 1;
}

void add_words(std::vector<std::string>& words, const Json& value) {
  if (value.is_array()) {
    for (const Json& each : value) add_words(words, each);
  } else if (value != true) {
    words.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
}

}  // namespace

bool gives(const EmitRequest& request, std::initializer_list<const char*> options) {
  const auto& words = request.user.words;
  return std::any_of(words.begin(), words.end(), [&](const std::string& word) {
    const std::string name = word.substr(0, word.find('='));
    return std::find(options.begin(), options.end(), name) != options.end();
  });
}

Json run_arguments(const EmitRequest& request) {
  Json json = Json::object();
  add_data(json, request);
  add_length(json, request);
  add_weights(json, request);
  if (request.probe) add_probe(json, request);
  return json;
}

std::vector<std::string> words_of(const Json& arguments) {
  std::vector<std::string> words;
  for (const auto& [name, value] : arguments.items()) {
    words.push_back("--" + name);
    add_words(words, value);
  }
  return words;
}

}  // namespace planwright::targets::megatron
