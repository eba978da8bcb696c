#include "launcher/targets/command/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "estimator/spec/error.h"
#include "estimator/spec/sha256.h"
#include "launcher/logs/generic_format.h"
#include "launcher/placeholders.h"
#include "launcher/shell.h"
#include "launcher/targets/command/axes.h"
#include "launcher/targets/shared/estimable.h"
#include "launcher/targets/shared/launch.h"
#include "launcher/targets/shared/stand_in.h"
#include "launcher/targets/shared/torch_states.h"

namespace planwright::targets::command {
namespace {

using launcher::AxisFlags;
using launcher::EmitRequest;
using launcher::LaunchConfig;
using launcher::UserCommand;

constexpr const char* kSource = "the user's command";
constexpr std::size_t kHashDigits = 12;

/// All that decides what is run, on one line.
std::string version_of(const UserCommand& user) {
  std::string text = launcher::shell_line(user.words);
  for (const AxisFlags& flags : user.flags) {
    for (const auto& [value, words] : flags.words) {
      text += fmt::format(" [{}{}{}: {}]", flags.axis, value.empty() ? "" : " ", value,
                          launcher::shell_line(words));
    }
  }
  for (const launcher::TemplateFile& file : user.templates) {
    text += fmt::format(" [template {}]", sha256_hex(file.text).substr(0, kHashDigits));
  }
  if (!user.environment.empty()) {
    text += fmt::format(" [environment {}]", launcher::shell_line({}, user.environment));
  }
  return text;
}

const std::vector<std::string>* words_for(const AxisFlags& flags, const Candidate& candidate) {
  auto found = flags.words.find(axis_value(candidate, flags.axis));
  if (found == flags.words.end()) found = flags.words.find("");
  return found == flags.words.end() ? nullptr : &found->second;
}

/// The command has no words for what the candidate wants.
Rule flagged_values(const UserCommand& user) {
  return {"flags_have_value",
          [flags = user.flags](const Problem&, const Candidate& c) {
            return std::any_of(flags.begin(), flags.end(), [&](const AxisFlags& each) {
              return words_for(each, c) == nullptr;
            });
          },
          "[launch.flags] has no words for a value of this plan",
          "add them, or leave the value out of [space]", kSource};
}

/// Nothing else says how large a step is.
Rule named_micro_batch(const UserCommand& user) {
  const std::vector<std::string> axes = named_axes(user);
  const bool named = std::find(axes.begin(), axes.end(), "micro_batch") != axes.end();
  return {"micro_batch_is_named",
          [named](const Problem& p, const Candidate& c) {
            return !named && p.workload.global_batch == 0 && c.micro_batch != 1;
          },
          "micro-batch {micro_batch} is not in the command, which does not name it",
          "put micro_batch, in braces, into the command", kSource};
}

/// A plan that takes more than one micro-batch a step must be able to say so.
Rule named_accumulation(const UserCommand& user) {
  bool named = false;
  const auto look = [&](const std::string& text) {
    for (const std::string& name : launcher::placeholders_in(text)) {
      named = named || name == "accumulation" || name == "global_batch";
    }
  };
  std::for_each(user.words.begin(), user.words.end(), look);
  for (const launcher::TemplateFile& file : user.templates) look(file.text);
  return {
      "accumulation_is_named",
      [named](const Problem& p, const Candidate& c) { return !named && accumulation(p, c) > 1; },
      "{accumulation} micro-batches of {micro_batch} make the global batch of {global_batch}, "
      "and the command is not told so",
      "put accumulation or global_batch, in braces, into the command, or leave --global-batch "
      "out",
      kSource};
}

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }

template <int kStage>
ShardedBy zero(const Candidate& c) {
  return c.zero >= kStage ? ShardedBy::data_ranks : ShardedBy::nothing;
}

bool has_master(const Problem& p, const Candidate&) { return p.workload.recipe.master.has_value(); }
bool has_one_moment(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::sgd || p.workload.optimizer == OptimizerKind::lion;
}
bool has_two_moments(const Problem& p, const Candidate& c) { return !has_one_moment(p, c); }

/// What ZeRO's stages mean by definition: arXiv:1910.02054, section 5.
std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr Phase kFrom = Phase::load, kTo = Phase::optimizer;
  constexpr const char* kZero = "arXiv:1910.02054, section 5";
  return {
      {parameters, flat_parameters, storage_bytes, 1, zero<3>, kFrom, kTo, nullptr, kZero},
      {parameters, frozen_parameters, storage_bytes, 1, zero<3>, kFrom, kTo, nullptr, kZero},
      {gradients, flat_parameters, gradient_bytes, 1, zero<2>, kFrom, kTo, nullptr, kZero},
      {optimizer, flat_parameters, master_bytes, 1, zero<1>, kFrom, kTo, has_master, kZero},
      {optimizer, flat_parameters, state_bytes, 2, zero<1>, kFrom, kTo, has_two_moments, kZero},
      {optimizer, flat_parameters, state_bytes, 1, zero<1>, kFrom, kTo, has_one_moment, kZero},
  };
}

/// torch.nn.parallel.DistributedDataParallel's.
constexpr std::int64_t kBucketMebibytes = 25;

TargetTraits traits_of(const UserCommand& user, const std::string& place) {
  TargetTraits traits = stand_in_traits(kCommandTarget, version_of(user));
  traits.holdings = holdings();
  traits.axes = supported_axes(user, place);
  traits.rules = joined({{flagged_values(user), named_micro_batch(user), named_accumulation(user)},
                         estimable_models()});
  traits.recipe = torch_recipe;
  traits.bucket_elements = [](const Candidate&) { return ddp_bucket_elements(kBucketMebibytes); };
  return traits;
}

/// Fills words, those of the plan's flags among them.
std::vector<std::string> filled_words(const UserCommand& user, const Candidate& candidate,
                                      const NamedValues& values) {
  std::vector<std::string> flags;
  for (const AxisFlags& each : user.flags) {
    for (const std::string& word : *words_for(each, candidate)) {
      flags.push_back(launcher::filled(word, values));
    }
  }
  const std::string place_of_flags = fmt::format("{{{}}}", kFlags);
  std::vector<std::string> words;
  bool placed = false;
  for (const std::string& word : user.words) {
    if (word == place_of_flags) {
      words.insert(words.end(), flags.begin(), flags.end());
      placed = true;
    } else {
      words.push_back(launcher::filled(word, values));
    }
  }
  if (!placed) words.insert(words.end(), flags.begin(), flags.end());
  return words;
}

void add_templates(LaunchConfig& config, const EmitRequest& request, NamedValues& values) {
  for (const launcher::TemplateFile& file : request.user.templates) {
    const std::string name = std::filesystem::path(file.path).filename().string();
    config.files.push_back({path_of(request, name), launcher::filled(file.text, values)});
    values.emplace_back(kTemplate, config.files.back().path);
  }
}

}  // namespace

launcher::Target target(const UserCommand& user, const std::string& place) {
  if (user.words.empty()) {
    throw InputError({place, "--target", kCommandTarget,
                      "needs the command behind --, as `-- torchrun train.py --micro-batch "
                      "{micro_batch}`, or as command in [launch] of the TOML file",
                      ""});
  }
  return {.traits = traits_of(user, place),
          .emit = emit,
          .has_worker = false,
          .logs = {launcher::generic_log_format()}};
}

LaunchConfig emit(const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  require_expressible(request, {flagged_values(request.user), named_micro_batch(request.user),
                                named_accumulation(request.user)});
  NamedValues values = values_of(request);
  LaunchConfig config;
  add_templates(config, request, values);
  config.command = filled_words(request.user, candidate, values);
  return finished(std::move(config), request, {problem.target_version});
}

}  // namespace planwright::targets::command
