#include "launcher/targets/pytorch/rules.h"

#include <algorithm>

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::pytorch {
namespace {

constexpr const char* kSettings = "launcher/targets/pytorch/emit.h";
constexpr const char* kReplicas =
    "pytorch/pytorch torch/nn/parallel/distributed.py @ v2.11.0, DistributedDataParallel";
constexpr const char* kLora = "Lightning-AI/litgpt litgpt/finetune/lora.py @ v0.5.9";
constexpr const char* kFull = "Lightning-AI/litgpt litgpt/finetune/full.py @ v0.5.9";
constexpr const char* kPretrain = "Lightning-AI/litgpt litgpt/pretrain.py @ v0.5.9";
constexpr const char* kAttention =
    "Lightning-AI/litgpt litgpt/model.py @ v0.5.9, scaled_dot_product_attention";

constexpr const char* kLoopKnob = "loop";
constexpr const char* kLitgptKnob = "litgpt";
constexpr const char* kDropoutKnob = "lora_dropout";

template <class Word>
Word chosen(const Candidate& candidate, const char* knob) {
  return from_word<Word>(knob_value(candidate, emitted_knobs(), knob)).value_or(Word{});
}

bool by_litgpt(const Candidate& c) { return loop_of(c) == Loop::litgpt; }
bool pretrains(const Problem& p) { return p.workload.job == Job::pretrain; }

std::vector<Rule> loop_rules() {
  return {
      {"whole_or_fully_sharded",
       [](const Problem&, const Candidate& c) { return c.zero == 1 || c.zero == 2; },
       "a plain loop has its model whole, or fully sharded: zero {zero}", "use --zero 0 or 3",
       kReplicas},
      {"stays_on_device", [](const Problem&, const Candidate& c) { return c.offload != Offload{}; },
       "a plain loop has everything on its device: offload {offload}", "use --offload none",
       kSettings},
      {"attention_chooses_its_kernel",
       [](const Problem&, const Candidate& c) { return c.attention != AttentionKernel::flash; },
       "torch's scaled_dot_product_attention chooses its kernel, and is not told: attention "
       "{attention}",
       "use --attention flash", kAttention},
      {"loss_is_torchs",
       [](const Problem&, const Candidate& c) { return c.loss != LossKernel::plain; },
       "the loop's loss is torch's cross_entropy", "use --loss plain",
       "Lightning-AI/litgpt litgpt/utils.py @ v0.5.9, chunked_cross_entropy"},
      {"quantised_on_one_device",
       [](const Problem& p, const Candidate& c) {
         return p.workload.job == Job::qlora && c.dp > 1;
       },
       "litgpt trains a model of 4-bit weights on one device, and dp is {dp}",
       "use --devices 1, or --job lora", kLora},
  };
}

std::vector<Rule> litgpt_rules() {
  return {
      {"litgpt_shards_over_devices",
       [](const Problem&, const Candidate& c) {
         return by_litgpt(c) && c.zero != (c.dp > 1 ? 3 : 0);
       },
       "litgpt's commands shard fully over several devices and not on one: dp {dp}, zero {zero}",
       "use --zero 3 on several devices and 0 on one, or the knob loop=script", kFull},
      {"litgpt_decides_recomputation",
       [](const Problem& p, const Candidate& c) {
         const bool recomputes = c.dp > 1 && !pretrains(p);
         return by_litgpt(c) && (c.recompute.kind == RecomputeKind::full) != recomputes;
       },
       "litgpt's commands recompute every block when they fine-tune over several devices and none "
       "else: recompute {recompute} at dp {dp}",
       "use the other of --recompute none and full, or the knob loop=script", kFull},
      {"litgpt_adapts_whole_mlps",
       [](const Problem& p, const Candidate& c) {
         using enum LoraTarget;
         const auto& targets = p.model.lora.targets;
         const auto has = [&](LoraTarget each) {
           return std::find(targets.begin(), targets.end(), each) != targets.end();
         };
         const bool gated = p.model.block(0).mlp == MlpKind::gated;
         const bool inner = has(gate_up_proj) || (has(up_proj) && (!gated || has(gate_proj)));
         const bool any = inner || has(up_proj) || has(gate_proj) || has(down_proj);
         return by_litgpt(c) && any && !(inner && has(down_proj));
       },
       "litgpt's --lora_mlp is of all matrices of an MLP, and the plan adapts some of them",
       "use --lora-targets with all of an MLP's matrices or none, or the knob loop=script", kLora},
      {"litgpt_pretrains_in_bf16",
       [](const Problem& p, const Candidate& c) {
         return by_litgpt(c) && pretrains(p) && p.workload.recipe.compute == DType::fp16;
       },
       "litgpt's pretrain takes bf16 and fp32, not {precision}",
       "use --precision bf16, or the knob loop=script", kPretrain},
      {"litgpt_replicates_nodes",
       [](const Problem& p, const Candidate& c) {
         return by_litgpt(c) && pretrains(p) && p.cluster.nodes > 1;
       },
       "litgpt's pretrain shards within a node and replicates over {nodes} nodes, which this "
       "target "
       "does not plan",
       "use one node", kPretrain},
  };
}

}  // namespace

Loop loop_of(const Candidate& candidate) { return chosen<Loop>(candidate, kLoopKnob); }
LitgptVersion litgpt_of(const Candidate& candidate) {
  return chosen<LitgptVersion>(candidate, kLitgptKnob);
}
bool drops_adapter_inputs(const Candidate& candidate) {
  return knob_value(candidate, emitted_knobs(), kDropoutKnob) == "on";
}

bool all_narrow(const PrecisionRecipe& recipe) { return recipe.storage == recipe.compute; }

std::int64_t logit_rows(Job job) {
  constexpr std::int64_t kChunk = 128;
  return job == Job::pretrain ? 0 : kChunk;
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs{
      {kLoopKnob, all_words<Loop>(), "whose loop trains: your script's, or litgpt's commands"},
      {kLitgptKnob, all_words<LitgptVersion>(), "the version of litgpt's modules"},
      {kDropoutKnob, {"on", "off"}, "whether adapters drop a part of their input"}};
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      trains_only(kSettings),
      one_stage(kReplicas),
      one_tensor_rank(kReplicas),
      one_context_rank(kReplicas),
      no_expert_ranks(kReplicas),
      no_sequence_parallel(kReplicas),
      no_replicas(kReplicas),
      equal_stages(kReplicas),
      recompute_among({RecomputeKind::none, RecomputeKind::full}, kSettings),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32}, kSettings),
      known_knobs(emitted_knobs(), kSettings),
  };
  for (auto& group : {loop_rules(), litgpt_rules()})
    all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace planwright::targets::pytorch
