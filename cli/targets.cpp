#include "cli/targets.h"

#include <fmt/core.h>

#include "estimator/spec/problem.h"
#include "launcher/targets/accelerate/traits.h"
#include "launcher/targets/builtin/emit.h"
#include "launcher/targets/command/target.h"
#include "launcher/targets/deepspeed/traits.h"
#include "launcher/targets/fsdp/traits.h"
#include "launcher/targets/hf_trainer/traits.h"
#include "launcher/targets/megatron/traits.h"
#include "launcher/targets/nanotron/traits.h"
#include "launcher/targets/torchtitan/traits.h"

namespace planwright::cli {
namespace {

const std::vector<launcher::Target>& registry() {
  static const std::vector<launcher::Target> kTargets{
      targets::builtin::target(),    targets::deepspeed::target(), targets::accelerate::target(),
      targets::hf_trainer::target(), targets::fsdp::target(),      targets::torchtitan::target(),
      targets::megatron::target(),   targets::nanotron::target()};
  return kTargets;
}

}  // namespace

std::vector<std::string> target_names() {
  std::vector<std::string> names;
  for (const launcher::Target& target : registry()) names.push_back(target.traits.name);
  names.emplace_back(kCommandTarget);
  return names;
}

std::shared_ptr<const launcher::Target> find_target(const Setting& name) {
  for (const launcher::Target& target : registry()) {
    if (target.traits.name == name.text) return {std::shared_ptr<void>(), &target};
  }
  refuse(name,
         fmt::format("is not a target of this version, which has {}", join_words(target_names())),
         nearest_word(name.text, target_names()));
}

std::shared_ptr<const launcher::Target> find_target(const Setting& name,
                                                    const launcher::UserCommand& user,
                                                    const Setting& place) {
  if (name.text != kCommandTarget) return find_target(name);
  return std::make_shared<const launcher::Target>(targets::command::target(user, place.file));
}

}  // namespace planwright::cli
