#pragma once

#include <functional>
#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"
#include "launcher/target.h"

/// Plans and looks at what became of them, for tests of the targets' emitters.
namespace planwright::testing {

/// Llama-3.1-8B's sizes.
ModelSpec llama_8b();

/// It on 8 devices of one node, bf16 with fp32 master weights, sequences of 4096, 64 a step.
launcher::EmitRequest emit_request(const std::string& target, const std::string& version,
                                   const Candidate& candidate);

/// dp 8, zero 3, micro-batch 1, full recompute.
Candidate sharded_candidate();

/// The text of the file whose path ends in `/name`; fails the test if there is none.
std::string text_of(const launcher::LaunchConfig& config, const std::string& name);
Json json_of(const launcher::LaunchConfig& config, const std::string& name);
bool has_file(const launcher::LaunchConfig& config, const std::string& name);

/// Whether one of the warnings has both in it.
bool warns(const launcher::LaunchConfig& config, const std::string& what,
           const std::string& more = "");

/// What a target makes of a plan.
using Emit = std::function<launcher::LaunchConfig(const launcher::EmitRequest&)>;

/// The rule that the emitter's InputError states; empty if there is none.
std::string refusal(const Emit& emit, const launcher::EmitRequest& request);

/// What a plan may be changed to, and the words that the refusal of it must have.
struct Refused {
  std::function<void(Problem&, Candidate&)> change;
  std::vector<std::string> words;
};
/// Each changes `request`'s plan and expects the emitter to refuse it in these words.
void expect_refused(const Emit& emit, const launcher::EmitRequest& request,
                    const std::vector<Refused>& cases);

/// Names and arguments that somebody may have: quotes, line ends, substitutions, other scripts.
const std::vector<std::string>& hostile_texts();

/// The words that a POSIX shell makes of the `exec` line of a script, whose program is not run.
/// HERE stands for the script's own folder.
std::vector<std::string> words_of_script(const std::string& script);

}  // namespace planwright::testing
