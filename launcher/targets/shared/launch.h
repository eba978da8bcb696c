#pragma once

#include <string>
#include <vector>

#include "estimator/spec/target_traits.h"
#include "launcher/target.h"

/// What all targets that are started as PyTorch ranks write in the same way.
namespace planwright::targets {

/// Stands in a command where only the user can say what belongs there.
constexpr const char* kScriptPlaceholder = "YOUR_SCRIPT.py";
constexpr const char* kHeadNodePlaceholder = "HEAD_NODE";
constexpr int kPort = 29500;
/// The folder of the weights that a job begins with.
constexpr const char* kCheckpointPlaceholder = "YOUR_CHECKPOINT_DIR";
/// The folder of states that are offloaded to a disk.
constexpr const char* kNvmePlaceholder = "/local_nvme";

/// An InputError, with the rule's words and the targets that can, if the plan breaks one of `rules`
/// or one of those that hold for every target: ranks are devices, micro-batches are whole.
void require_expressible(const launcher::EmitRequest& request, const std::vector<Rule>& rules);

/// `name` in the request's folder, as a command can take it: never like an option.
std::string path_of(const launcher::EmitRequest& request, const std::string& name);

/// What may stand in braces in any target's command: the plan's values, and the run's steps.
NamedValues values_of(const launcher::EmitRequest& request);

/// What the user gave, its {placeholders} filled with the plan's values; an InputError for one that
/// has none.
std::vector<std::string> user_words(const launcher::EmitRequest& request);

/// The user's script, or the placeholder; never like an option.
std::string script_of(const launcher::EmitRequest& request);

/// The launcher that the user asks for, or torchrun; an InputError if it is not among `known`.
std::string launcher_of(const launcher::EmitRequest& request,
                        const std::vector<std::string>& known);

/// `torchrun`, as many ranks as the cluster has devices. Several nodes meet at the placeholder's
/// port (c10d), so that the line is the same on each.
std::vector<std::string> torchrun(const launcher::EmitRequest& request);

/// `front`, the script, `options`, and then the request's own arguments.
std::vector<std::string> command_of(const launcher::EmitRequest& request,
                                    std::vector<std::string> front,
                                    const std::vector<std::string>& options);

/// Whether the request names a script, and not only arguments of one.
bool brings_script(const launcher::EmitRequest& request);

/// command_of, or without a script `front` and the target's `own`, whose arguments the request's
/// words then are.
std::vector<std::string> command_with_own_script(const launcher::EmitRequest& request,
                                                 std::vector<std::string> front,
                                                 const std::vector<std::string>& own,
                                                 const std::vector<std::string>& options);

/// Whether what is started trains weights that exist: not a model's first, and not a probe's, which
/// are any.
bool begins_with_weights(const launcher::EmitRequest& request);

/// Says whose place it is in which that placeholder stands, `setting`, and that its weights are to
/// be in `format`.
void warn_of_checkpoint(launcher::LaunchConfig& config, const std::string& setting,
                        const std::string& format);

/// Said where the plan has adapters, which are made by the user's script.
std::vector<std::string> adapter_warnings(const launcher::EmitRequest& request);

/// The same, and of attention and loss kernels, where no file of the target can choose them.
std::vector<std::string> user_code_warnings(const launcher::EmitRequest& request);

/// Says so where that placeholder stands in a file.
void warn_of_nvme(launcher::LaunchConfig& config, const Candidate& candidate);

/// Gives the ranks the user's environment, and on a CPU as many threads as the plan says: in a
/// launch as in a probe. An InputError if the user's contradicts what the plan sets.
void add_environment(launcher::LaunchConfig& config, const launcher::EmitRequest& request);

/// A script of the request's folder that runs the command: it may be called from anywhere, finds
/// the files of `config` beside itself, and what is relative in the user's words from where `emit`
/// was run.
launcher::EmittedFile launch_script(const launcher::EmitRequest& request, const std::string& name,
                                    const std::vector<std::string>& command,
                                    const launcher::LaunchConfig& config);

/// Adds the environment and what every target's folder has: launch.sh with the command, plan.json
/// (which `--plan` reads) and origin.json; the evidence; and a warning unless the plan's target
/// version is one of `checked`, with which such files were tried, or differs from it in its last
/// part only.
launcher::LaunchConfig finished(launcher::LaunchConfig config, const launcher::EmitRequest& request,
                                const std::vector<std::string>& checked);

}  // namespace planwright::targets
