#include "launcher/targets/megatron_deepspeed/rules.h"

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

constexpr const char* kArguments =
    "bigscience-workshop/Megatron-DeepSpeed megatron/arguments.py @ 8387ae1";
constexpr const char* kModel =
    "bigscience-workshop/Megatron-DeepSpeed megatron/model/transformer.py @ 8387ae1";
constexpr const char* kPipeModel =
    "bigscience-workshop/Megatron-DeepSpeed megatron/model/gpt_model.py @ 8387ae1";
constexpr const char* kEngine = "microsoft/DeepSpeed deepspeed/runtime/pipe/engine.py @ v0.5.10";
constexpr const char* kBf16 = "microsoft/DeepSpeed deepspeed/runtime/bf16_optimizer.py @ v0.6.7";

std::vector<Rule> tensor_rules() {
  return {
      tp_divides_heads(kModel),
      {"tp_divides_widths",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.ffn % c.tp != 0; });
       },
       "tp {tp} does not divide the width of the model's MLPs", "use a smaller --tp", kModel},
      {"tp_divides_kv_heads",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.kv_heads % c.tp != 0; });
       },
       "tp {tp} does not divide the model's {kv_heads} key/value heads",
       "use a --tp that divides {kv_heads}", kModel},
  };
}

std::vector<Rule> engine_rules() {
  return {
      {"engine_shards_states_only", [](const Problem&, const Candidate& c) { return c.zero > 1; },
       "DeepSpeed's pipeline engine shards the optimizer's states only: zero {zero}",
       "use --zero 0 or 1", kEngine},
      {"bf16_shards_its_states",
       [](const Problem& p, const Candidate& c) {
         return has_bf16_optimizer(p) && c.dp > 1 && c.zero != 1;
       },
       "DeepSpeed's optimizer of bf16 shards its states always, and zero is {zero}",
       "use --zero 1, or --precision fp16", kBf16},
      {"stages_within_layers",
       [](const Problem& p, const Candidate& c) { return c.pp > p.model.layers(); },
       "pp {pp} stages are more than the model's {layers} blocks", "use fewer stages", kPipeModel},
      {"one_schedule",
       [](const Problem&, const Candidate& c) {
         return c.vpp != 1 || c.schedule != Schedule::one_f_one_b;
       },
       "DeepSpeed's pipeline engine runs 1f1b on one stage a rank: vpp {vpp}, schedule {schedule}",
       "use --vpp 1 --schedule 1f1b", kEngine},
      {"stays_on_device", [](const Problem&, const Candidate& c) { return c.offload != Offload{}; },
       "this target writes no offload: {offload}", "use --offload none", kArguments},
      {"loss_is_vocabulary_parallel",
       [](const Problem&, const Candidate& c) { return c.loss != LossKernel::plain; },
       "the loss is over logits in fp32, in the logits' own storage: loss {loss}",
       "use --loss plain",
       "bigscience-workshop/Megatron-DeepSpeed megatron/mpu/cross_entropy.py @ 8387ae1"},
      {"flash_of_16_bits",
       [](const Problem& p, const Candidate& c) {
         return c.attention == AttentionKernel::flash && bytes_of(p.workload.recipe.compute) != 2;
       },
       "flash attention takes 16-bit types, not {precision}",
       "use --precision bf16 or fp16, or --attention eager",
       "microsoft/Megatron-DeepSpeed megatron/model/transformer.py, FlashSelfAttention"},
  };
}

}  // namespace

bool has_bf16_optimizer(const Problem& problem) {
  return problem.workload.recipe.compute == DType::bf16 &&
         problem.workload.recipe.gradient == DType::fp32;
}

std::vector<Rule> emit_rules() {
  std::vector<Rule> all{
      trains_only(kArguments),
      one_context_rank(kArguments),
      no_expert_ranks(kArguments),
      no_sequence_parallel(kArguments),
      no_replicas(kArguments),
      equal_stages(kPipeModel),
      no_adapters(kArguments),
      recompute_among({RecomputeKind::none, RecomputeKind::full, RecomputeKind::chunk}, kArguments),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32}, kArguments),
      optimizer_among({OptimizerKind::adamw}, kArguments),
      known_knobs({}, kArguments),
  };
  for (auto& group : {tensor_rules(), engine_rules()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace planwright::targets::megatron_deepspeed
