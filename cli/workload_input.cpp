#include "cli/workload_input.h"

#include <fmt/core.h>

#include <vector>

#include "cli/sizes.h"

namespace planwright::cli {
namespace {

const Setting* job_setting(const Settings& settings, std::string_view name) {
  return settings.find(Table::job, name);
}

std::int64_t read_count(const Settings& settings, std::string_view name,
                        std::optional<std::int64_t> otherwise) {
  const Setting* setting = job_setting(settings, name);
  if (setting == nullptr && otherwise) return *otherwise;
  if (setting == nullptr) {
    refuse(
        {"", kCommandLine, fmt::format("--{}", name)},
        fmt::format("is required, here or as {} in [job] of the TOML file", toml_spelling(name)));
  }
  return parse_integer(*setting, 1);
}

/// What the target keeps for the precision word, changed where the user says so.
PrecisionRecipe read_recipe(const Settings& settings, const TargetTraits& traits,
                            Precision precision) {
  const auto usual = traits.recipe(precision);
  if (!usual) {
    std::vector<std::string> possible;
    for (const std::string& name : all_words<Precision>()) {
      if (traits.recipe(*from_word<Precision>(name))) possible.push_back(name);
    }
    const Setting* given = job_setting(settings, "precision");
    refuse(given != nullptr ? *given
                            : Setting{std::string(word(precision)), kCommandLine, "--precision"},
           fmt::format("is not a precision of target {}, which has {}", traits.name,
                       join_words(possible)),
           nearest_word(word(precision), possible));
  }
  PrecisionRecipe recipe = *usual;
  if (const Setting* type = job_setting(settings, "grad-dtype")) {
    recipe.gradient = parse_setting_word<DType>(*type);
  }
  if (const Setting* type = job_setting(settings, "state-dtype")) {
    recipe.state = parse_setting_word<DType>(*type);
    if (traits.states_like_weights) recipe.storage = recipe.gradient = recipe.state;
  }
  if (const Setting* master = job_setting(settings, "master-weights")) {
    const DType widest = accumulation_type(recipe.compute);
    recipe.master =
        parse_toggle(*master) ? std::optional(recipe.master.value_or(widest)) : std::nullopt;
  }
  return recipe;
}

/// Of the linear layers under adapters that are trained: QLoRA's own, without double quantisation,
/// if no other is named.
std::optional<WeightFormat> quantised_base(const Settings& settings, Job job) {
  if (job != Job::qlora) return std::nullopt;
  const Setting* quant = job_setting(settings, "quant");
  if (quant == nullptr) return find_weight_format("nf4", kCommandLine, "--quant");
  if (quant->text == "none") return std::nullopt;
  return find_weight_format(quant->text, quant->file, quant->key);
}

/// What a server keeps; its words are for the job inference only.
Serving read_serving(const Settings& settings, Job job, DType storage) {
  for (const char* name : {"kv-dtype", "kv-block", "prefill"}) {
    const Setting* setting = job_setting(settings, name);
    if (setting != nullptr && job != Job::inference) {
      refuse(*setting, fmt::format("is for the job inference; this one is {}", word(job)));
    }
  }
  Serving serving;
  serving.weights = quantised_base(settings, job);
  if (job != Job::inference) return serving;
  for (const char* name : {"optimizer", "grad-dtype", "master-weights", "state-dtype",
                           "hidden-dropout", "attention-dropout"}) {
    const Setting* setting = job_setting(settings, name);
    if (setting != nullptr) refuse(*setting, "is for jobs that train; this one is inference");
  }
  const Setting* quant = job_setting(settings, "quant");
  if (quant != nullptr && quant->text != "none") {
    serving.weights = find_weight_format(quant->text, quant->file, quant->key);
  } else if (quant != nullptr) {  // whatever the checkpoint has
    serving.weights = plain_format(from_word<WeightType>(word(storage)).value_or(WeightType::fp32));
  }
  if (const Setting* type = job_setting(settings, "kv-dtype")) {
    serving.cache = parse_setting_word<CacheType>(*type);
  }
  if (const Setting* page = job_setting(settings, "kv-block")) {
    serving.page = parse_count(*page, 1);
  }
  if (const Setting* prefill = job_setting(settings, "prefill")) {
    serving.prefill = parse_count(*prefill, 1);
  }
  return serving;
}

}  // namespace

Workload read_workload(const Settings& settings, const TargetTraits& traits,
                       const JobDefaults& defaults) {
  Workload workload;
  if (const Setting* job = job_setting(settings, "job")) {
    workload.job = parse_setting_word<Job>(*job);
  }
  workload.seq = read_count(settings, "seq", defaults.seq);
  workload.global_batch = read_count(settings, "global-batch", defaults.global_batch);
  if (const Setting* optimizer = job_setting(settings, "optimizer")) {
    workload.optimizer = parse_setting_word<OptimizerKind>(*optimizer);
  }
  if (const Setting* precision = job_setting(settings, "precision")) {
    workload.precision = parse_setting_word<Precision>(*precision);
  }
  workload.recipe = read_recipe(settings, traits, workload.precision);
  // Weights that are not trained are kept as they are computed with, whatever a trainer keeps.
  if (workload.job == Job::inference) workload.recipe.storage = workload.recipe.compute;
  workload.serving = read_serving(settings, workload.job, workload.recipe.storage);
  if (const Setting* hidden = job_setting(settings, "hidden-dropout")) {
    workload.hidden_dropout = parse_probability(*hidden);
  }
  if (const Setting* attention = job_setting(settings, "attention-dropout")) {
    workload.attention_dropout = parse_probability(*attention);
  }
  if (const Setting* headroom = job_setting(settings, "headroom")) {
    workload.headroom = parse_headroom(*headroom);
  }
  return workload;
}

}  // namespace planwright::cli
