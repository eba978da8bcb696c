#include "launcher/targets/shared/estimable.h"

#include <algorithm>
#include <iterator>

#include "estimator/spec/model_features.h"

namespace planwright::targets {
namespace {

constexpr const char* kScripts = "estimator/block_script.cpp";
constexpr const char* kHoldings = "estimator/spec/target_traits.h, Holding";

std::string words_of(const std::vector<OptimizerKind>& kinds) {
  std::vector<std::string> words;
  std::transform(kinds.begin(), kinds.end(), std::back_inserter(words),
                 [](OptimizerKind kind) { return std::string(word(kind)); });
  return join_words(words);
}

PrecisionRecipe all_of(DType type) { return {type, type, type, std::nullopt, type}; }

}  // namespace

std::vector<Rule> estimable_models(bool transformers) {
  std::vector<Rule> rules = estimate_rules({}, kScripts);
  rules.push_back({"estimates_job",
                   [transformers](const Problem& p, const Candidate&) {
                     const bool runs = transformers && p.cluster.device.kind == DeviceKind::cuda;
                     return p.workload.job == Job::qlora && !runs;
                   },
                   "this version cannot estimate quantised frozen weights for target {target}",
                   "use --job lora", kHoldings});
  return rules;
}

std::vector<Rule> estimable_optimizers(const std::vector<OptimizerKind>& kinds) {
  return {{"estimates_optimizer",
           [kinds](const Problem& p, const Candidate&) {
             return std::find(kinds.begin(), kinds.end(), p.workload.optimizer) == kinds.end();
           },
           "this version cannot estimate optimizer {optimizer} for target {target}",
           "use --optimizer " + words_of(kinds), kHoldings},
          {"estimates_whole_statistics",
           [](const Problem& p, const Candidate& c) {
             return p.workload.optimizer == OptimizerKind::adafactor && (c.zero != 0 || c.tp != 1);
           },
           "adafactor keeps statistics of whole rows and columns, and this version cannot estimate "
           "them for zero {zero} with tp {tp}",
           "use zero 0 and tp 1, or another --optimizer", kHoldings}};
}

std::vector<Rule> estimable_offload() {
  return {{"offload_leaves_a_device",
           [](const Problem& p, const Candidate& c) {
             return c.offload != Offload{} && p.cluster.device.kind != DeviceKind::cuda;
           },
           "offload {offload} would leave a CPU's memory for the same memory", "use --offload none",
           kHoldings}};
}

Rule estimable_types(const std::function<std::optional<PrecisionRecipe>(Precision)>& recipe,
                     bool any_gradient, bool states_like_weights) {
  return {"estimates_types",
          [=](const Problem& p, const Candidate&) {
            std::optional<PrecisionRecipe> own = recipe(p.workload.precision);
            const PrecisionRecipe& asked = p.workload.recipe;
            const bool plain = asked.gradient == asked.compute || asked.gradient == DType::fp32;
            if (own && any_gradient && plain) own->gradient = asked.gradient;
            const bool narrow = states_like_weights && own && asked == all_of(own->compute);
            return own != asked && !narrow;
          },
          "target {target} keeps weights, gradients and states of other types than these with "
          "{precision}",
          states_like_weights
              ? "leave out --grad-dtype and --master-weights; --state-dtype may be the type of "
                "--precision, which the weights are then loaded in"
          : any_gradient
              ? "leave out --state-dtype and --master-weights; --grad-dtype may be fp32 or "
                "the type of --precision"
              : "leave out --grad-dtype, --state-dtype and --master-weights",
          kHoldings};
}

}  // namespace planwright::targets
