#include "estimator/wall.h"

#include <algorithm>

#include "estimator/serving_bytes.h"
#include "estimator/spec/rules.h"

namespace planwright::estimator {
namespace {

/// A technique, the accounts that it cuts, and whether there is any of it left to use. Of a job
/// that trains, what of it a target must have among its axes, or take of a problem: none, if there
/// is nothing.
struct Technique {
  const char* name;
  std::vector<Account> cuts;
  bool (*left)(const Problem&, const Candidate&);
  bool (*has)(const SupportedAxes&) = nullptr;
  void (*use)(Problem&) = nullptr;
};

template <class Values, class Test>
bool any_of(const Values& values, Test test) {
  return std::any_of(values.begin(), values.end(), test);
}

bool above_one(const std::vector<int>& degrees) {
  return any_of(degrees, [](int degree) { return degree > 1; });
}

template <int stage>
bool shards(const SupportedAxes& axes) {
  return any_of(axes.zero, [](int each) { return each >= stage; });
}

bool trains(const Problem& p) { return p.workload.job != Job::inference; }
bool shards_left(const Problem& p, const Candidate& c, int stage) {
  return trains(p) && c.zero < stage && p.cluster.devices() > 1;
}

std::int64_t cache_bits(const Problem& p) {
  return bits_of(p.workload.serving.cache.value_or(CacheType::bf16));
}

/// More tensor ranks than key/value heads hold copies of them, and a latent vector is whole on all.
bool tensor_ranks_cut_cache(const Problem& p, const Candidate& c) {
  return p.model.any_block([&](const BlockSpec& b) { return !b.latent && c.tp < b.kv_heads; });
}

bool tensor_ranks_cut_blocks(const Problem& p, const Candidate& c) {
  return p.model.any_block(
      [&](const BlockSpec& b) { return c.tp < (b.mamba ? b.mamba->inner : b.heads); });
}

const std::vector<Technique>& techniques() {
  using enum Account;
  static const std::vector<Technique> kTechniques{
      {"flash attention",
       {activations},
       [](const Problem&, const Candidate& c) { return c.attention == AttentionKernel::eager; },
       [](const SupportedAxes& axes) {
         return any_of(axes.attention,
                       [](AttentionKernel each) { return each == AttentionKernel::flash; });
       }},
      {"fused or chunked loss",
       {logits},
       [](const Problem& p, const Candidate& c) {
         return trains(p) && c.loss == LossKernel::plain;
       },
       [](const SupportedAxes& axes) {
         return any_of(axes.loss, [](LossKernel each) { return each != LossKernel::plain; });
       }},
      {"ZeRO 1",
       {optimizer},
       [](const Problem& p, const Candidate& c) { return shards_left(p, c, 1); },
       shards<1>},
      {"ZeRO 2",
       {gradients},
       [](const Problem& p, const Candidate& c) { return shards_left(p, c, 2); },
       shards<2>},
      {"ZeRO 3",
       {parameters},
       [](const Problem& p, const Candidate& c) { return shards_left(p, c, 3); },
       shards<3>},
      {"sequence parallelism",
       {activations},
       [](const Problem& p, const Candidate& c) { return trains(p) && c.tp > 1 && !c.sp; },
       [](const SupportedAxes& axes) {
         return axes.sp_with_tp || any_of(axes.sp, [](bool each) { return each; });
       }},
      {"smaller micro-batches",
       {activations, logits},
       [](const Problem& p, const Candidate& c) { return trains(p) && c.micro_batch > 1; }},
      {"recomputation",
       {activations},
       [](const Problem& p, const Candidate& c) {
         return trains(p) && c.recompute.kind != RecomputeKind::full;
       },
       [](const SupportedAxes& axes) {
         return any_of(axes.recompute,
                       [](const Recompute& each) { return each.kind != RecomputeKind::none; });
       }},
      {"8-bit cache",
       {kv_cache},
       [](const Problem& p, const Candidate&) { return !trains(p) && cache_bits(p) > 8; }},
      {"4-bit cache",
       {kv_cache},
       [](const Problem& p, const Candidate&) { return !trains(p) && cache_bits(p) == 8; }},
      {"fewer sequences at once",
       {kv_cache, logits},
       [](const Problem& p, const Candidate& c) {
         return !trains(p) && p.workload.global_batch > c.dp;
       }},
      {"a shorter context",
       {kv_cache},
       [](const Problem& p, const Candidate&) { return !trains(p); }},
      {"smaller prefill chunks",
       {activations},
       [](const Problem& p, const Candidate&) { return !trains(p); }},
      {"quantised weights",
       {parameters},
       [](const Problem& p, const Candidate&) {
         const WeightFormat* format = weight_format_of(p);
         return !trains(p) && (format == nullptr || bits_of(format->type) > 4);
       }},
      {"tensor parallelism",
       {parameters, gradients, optimizer, activations, logits},
       tensor_ranks_cut_blocks,
       [](const SupportedAxes& axes) { return above_one(axes.tp); }},
      {"tensor parallelism",
       {kv_cache},
       tensor_ranks_cut_cache,
       [](const SupportedAxes& axes) { return above_one(axes.tp); }},
      {"pipeline parallelism",
       {parameters, gradients, optimizer, kv_cache},
       [](const Problem& p, const Candidate& c) { return c.pp < p.model.layers(); },
       [](const SupportedAxes& axes) { return above_one(axes.pp); }},
      {"expert parallelism",
       {parameters, gradients, optimizer},
       [](const Problem& p, const Candidate& c) {
         return trains(p) && p.model.has_experts() && c.expert_data_ranks() > 1;
       },
       [](const SupportedAxes& axes) { return above_one(axes.ep); }},
      {"context parallelism",
       {activations, logits},
       [](const Problem& p, const Candidate& c) { return trains(p) && c.cp == 1; },
       [](const SupportedAxes& axes) { return above_one(axes.cp); }},
      {"LoRA",
       {gradients, optimizer},
       [](const Problem& p, const Candidate&) { return p.workload.job == Job::finetune; },
       nullptr,
       [](Problem& p) {
         p.workload.job = Job::lora;
         p.model.lora = {.rank = 8, .targets = {LoraTarget::q_proj, LoraTarget::v_proj}};
       }},
      {"QLoRA",
       {parameters},
       [](const Problem& p, const Candidate&) { return p.workload.job == Job::lora; },
       nullptr,
       [](Problem& p) { p.workload.job = Job::qlora; }},
      {"8-bit optimizer states",
       {optimizer},
       [](const Problem& p, const Candidate&) {
         return trains(p) && p.workload.optimizer == OptimizerKind::adamw;
       },
       nullptr,
       [](Problem& p) { p.workload.optimizer = OptimizerKind::adam8bit; }},
      {"offload to host memory",
       {optimizer, parameters},
       [](const Problem& p, const Candidate& c) {
         const bool offloads = c.offload.optimizer || c.offload.params;
         return trains(p) && !offloads && p.cluster.device.kind == DeviceKind::cuda;
       },
       [](const SupportedAxes& axes) {
         return any_of(axes.offload,
                       [](const Offload& each) { return each.optimizer || each.params; });
       }},
      {"offload to host memory",
       {activations},
       [](const Problem& p, const Candidate& c) {
         return trains(p) && !c.offload.activations && p.cluster.device.kind == DeviceKind::cuda;
       },
       [](const SupportedAxes& axes) {
         return any_of(axes.offload, [](const Offload& each) { return each.activations; });
       }},
  };
  return kTechniques;
}

/// Whether the target has it. Of a server none is asked: its parts are nobody's axes.
bool is_had(const Technique& technique, const Problem& problem, const TargetTraits& traits,
            const Candidate& candidate) {
  if (!trains(problem)) return true;
  if (technique.has != nullptr && !technique.has(traits.axes)) return false;
  if (technique.use == nullptr) return true;
  Problem used = problem;
  technique.use(used);
  return first_broken(rules_for(traits), used, candidate) == nullptr;
}

}  // namespace

Account largest_account(const Ledger& ledger) {
  const auto largest = std::max_element(ledger.bytes.begin(), ledger.bytes.end());
  return static_cast<Account>(largest - ledger.bytes.begin());
}

Ruler ruling_account(const Estimate& estimate) {
  const Ledger& at = estimate.peak().accounts;
  const Account largest = largest_account(at);
  const Bytes all = estimate.peak().device_used.value_or(at.allocated());
  return {largest, all > Bytes{} ? at[largest] / all : 0};
}

std::vector<std::string> movers(const Problem& problem, const TargetTraits& traits,
                                const Candidate& candidate, Account account) {
  std::vector<std::string> names;
  for (const Technique& each : techniques()) {
    const bool cuts = std::find(each.cuts.begin(), each.cuts.end(), account) != each.cuts.end();
    if (!cuts || !each.left(problem, candidate)) continue;
    if (is_had(each, problem, traits, candidate)) names.emplace_back(each.name);
  }
  return names;
}

}  // namespace planwright::estimator
