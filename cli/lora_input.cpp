#include "cli/lora_input.h"

#include <fmt/core.h>

#include <algorithm>

namespace planwright::cli {
namespace {

// Source: Hugging Face PEFT's LoraConfig.r, and its modules for Llama.
constexpr std::int64_t kUsualRank = 8;
const std::vector<LoraTarget> kUsualTargets{LoraTarget::q_proj, LoraTarget::v_proj};

/// PEFT's word for every matrix of a block.
constexpr const char* kAllLinear = "all-linear";

const Setting* job_setting(const Settings& settings, std::string_view name) {
  return settings.find(Table::job, name);
}

void refuse_adapters(const Settings& settings, Job job) {
  for (const char* name : {"lora-rank", "lora-targets"}) {
    if (const Setting* setting = job_setting(settings, name)) {
      refuse(*setting, fmt::format("is for the jobs lora and qlora; this one is {}", word(job)));
    }
  }
  const Setting* quant = job_setting(settings, "quant");
  if (quant != nullptr && job != Job::inference) {
    refuse(*quant, fmt::format("is for the jobs qlora and inference; this one is {}", word(job)));
  }
}

/// A frozen base that is not stored as it is, or in a way that is unknown.
void refuse_quantised(const Settings& settings, Job job) {
  const Setting* quant = job_setting(settings, "quant");
  if (job == Job::lora && quant != nullptr && quant->text != "none") {
    refuse(*quant, "is for the jobs qlora and inference; this one is lora");
  }
  if (quant != nullptr && quant->text != "none") {
    find_weight_format(quant->text, quant->file, quant->key);
  }
}

LoraTarget parse_target(const Setting& name) {
  if (const auto target = from_word<LoraTarget>(name.text)) return *target;
  std::vector<std::string> valid = all_words<LoraTarget>();
  valid.emplace_back(kAllLinear);
  if (name.text == kAllLinear) refuse(name, "is every module already, and stands alone");
  refuse(name, "must be some of " + join_words(valid), nearest_word(name.text, valid));
}

std::vector<LoraTarget> parse_targets(const Setting& list, const ModelSpec& model) {
  if (list.text == kAllLinear) return all_linear(model.block(0));
  std::vector<LoraTarget> targets;
  for (const Setting& name : split_list(list)) {
    const LoraTarget target = parse_target(name);
    if (std::find(targets.begin(), targets.end(), target) != targets.end()) {
      refuse(name, "is named twice");
    }
    targets.push_back(target);
  }
  std::sort(targets.begin(), targets.end());
  for (const BlockRun& run : model.runs) {
    const std::string broken = broken_targets({kUsualRank, targets}, run.block);
    if (!broken.empty()) refuse(list, broken);
  }
  return targets;
}

}  // namespace

LoraSpec read_lora(const Settings& settings, Job job, const ModelSpec& model) {
  if (job != Job::lora && job != Job::qlora) {
    refuse_adapters(settings, job);
    return {};
  }
  refuse_quantised(settings, job);
  LoraSpec lora{kUsualRank, kUsualTargets};
  if (const Setting* rank = job_setting(settings, "lora-rank")) lora.rank = parse_count(*rank, 1);
  if (const Setting* list = job_setting(settings, "lora-targets")) {
    lora.targets = parse_targets(*list, model);
  }
  return lora;
}

}  // namespace planwright::cli
