#include "launcher/targets/nanotron/rules.h"

#include <algorithm>

#include "estimator/spec/model_features.h"
#include "launcher/targets/nanotron/split.h"
#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"
#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets::nanotron {
namespace {

constexpr const char* kConfig = "huggingface/nanotron src/nanotron/config/config.py @ 2411b02";
constexpr const char* kParallelism =
    "huggingface/nanotron src/nanotron/config/parallelism_config.py @ 2411b02";
constexpr const char* kLlama = "huggingface/nanotron src/nanotron/models/llama.py @ 2411b02";
constexpr const char* kLinears =
    "huggingface/nanotron src/nanotron/parallel/tensor_parallel/nn.py @ 2411b02";
constexpr const char* kScatter =
    "huggingface/nanotron "
    "src/nanotron/parallel/tensor_parallel/distributed_differentiable_primitives.py @ 2411b02";
constexpr const char* kEngine =
    "huggingface/nanotron src/nanotron/parallel/pipeline_parallel/engine.py @ 2411b02";
constexpr const char* kSplit = "huggingface/nanotron src/nanotron/models/base.py @ 2411b02";
constexpr const char* kZero =
    "huggingface/nanotron src/nanotron/optim/zero.py, and the plans that "
    "scaling_benchmarks.py leaves out @ 67c5ebb";
constexpr const char* kAccumulator =
    "huggingface/nanotron src/nanotron/optim/gradient_accumulator.py @ 2411b02";

bool is_llama(const ModelSpec& model, const BlockSpec& block) {
  return block.mlp == MlpKind::gated && block.activation == Activation::silu &&
         block.norm == NormKind::rms_norm && block.residual == Residual::sequential &&
         !block.qkv_bias && !block.out_bias && !block.mlp_bias && block.sliding_window == 0 &&
         block.heads * block.head_dim == model.hidden;
}

bool is_llama(const ModelSpec& model) {
  for (const std::string& name : all_words<ModelFeature>()) {
    if (has_feature(model, *from_word<ModelFeature>(name))) return false;
  }
  return model.runs.size() == 1 && model.positions == Positions::rotary &&
         is_llama(model, model.runs.front().block);
}

std::vector<Rule> model_rules() {
  return {
      {"model_is_llama", [](const Problem& p, const Candidate&) { return !is_llama(p.model); },
       "nanotron's Llama is the model of these files, and this one's blocks are others", "",
       kLlama},
      {"trains_on_gpus",
       [](const Problem& p, const Candidate&) { return p.cluster.device.kind != DeviceKind::cuda; },
       "nanotron trains on GPUs, and the device is {device}", "use a --device that is one", kLlama},
      {"attention_in_files",
       [](const Problem&, const Candidate& c) { return c.attention != AttentionKernel::flash; },
       "nanotron's Llama calls flash-attn: attention {attention}", "use --attention flash", kLlama},
      {"loss_in_files",
       [](const Problem&, const Candidate& c) { return c.loss != LossKernel::plain; },
       "nanotron has one loss, over sharded logits: loss {loss}", "use --loss plain", kLlama},
      {"no_dropout",
       [](const Problem& p, const Candidate&) {
         return p.workload.hidden_dropout > 0 || p.workload.attention_dropout > 0;
       },
       "nanotron's Llama has no dropout", "leave out the dropout", kLlama},
  };
}

std::vector<Rule> tensor_rules() {
  return {
      tp_divides_all_heads(kLlama),
      {"tp_divides_mlp",
       [](const Problem& p, const Candidate& c) {
         return p.model.any_block([&](const BlockSpec& b) { return b.ffn % c.tp != 0; });
       },
       "tp {tp} does not divide the width of the model's MLP", "use a --tp that divides it",
       kLinears},
      {"sequence_parallel_with_tp",
       [](const Problem&, const Candidate& c) { return c.sp && c.tp == 1; },
       "sp is tp_mode REDUCE_SCATTER, which shards nothing with tp 1", "use --sp off",
       kParallelism},
      {"tp_divides_sequence",
       [](const Problem& p, const Candidate& c) { return c.sp && p.workload.seq % c.tp != 0; },
       "tp {tp} does not divide the sequence of {seq}, which sp scatters",
       "use a --tp that divides it, or --sp off", kScatter},
      {"gathers_with_sp",
       [](const Problem&, const Candidate& c) { return keeps_gathered(c) && !c.sp; },
       "tp_recompute_allgather off keeps what sp gathers: sp {sp}",
       "use --sp on, or leave the knob out", kParallelism},
  };
}

bool has_empty_stage(const Problem& problem, const Candidate& c) {
  const auto stages = split(problem.model, c.pp);
  return std::find(stages.begin(), stages.end(), StageParts{}) != stages.end();
}

std::vector<Rule> pipeline_rules() {
  return {
      equal_stages(kSplit),
      {"one_chunk_per_stage", [](const Problem&, const Candidate& c) { return c.vpp != 1; },
       "nanotron's engines have one chunk a stage: vpp {vpp}", "use --vpp 1", kEngine},
      {"schedule_of_an_engine",
       [](const Problem&, const Candidate& c) {
         if (c.schedule == Schedule::one_f_one_b) return false;
         return c.schedule != Schedule::gpipe || c.pp == 1;
       },
       "nanotron's engines are 1f1b and, with stages, afab, which is gpipe: schedule {schedule} at "
       "pp {pp}",
       "use --schedule 1f1b, or gpipe with a --pp above 1", kEngine},
      {"micro_batches_for_stages",
       [](const Problem& p, const Candidate& c) {
         return c.schedule == Schedule::one_f_one_b && accumulation(p, c) < c.pp - 1;
       },
       "the 1f1b engine wants pp - 1 micro-batches at least: {accumulation} at pp {pp}",
       "use a smaller --micro-batch, --dp or --pp, or --schedule gpipe", kEngine},
      {"stages_with_parts", has_empty_stage,
       "nanotron's split by cost leaves a stage of pp {pp} without any part of the model",
       "use a smaller --pp", kSplit},
  };
}

std::vector<Rule> data_rules() {
  return {
      {"zero_in_files", [](const Problem&, const Candidate& c) { return c.zero > 1; },
       "nanotron shards the optimizer's states and nothing else: zero {zero}", "use --zero 0 or 1",
       kZero},
      {"zero_needs_replicas",
       [](const Problem&, const Candidate& c) { return c.zero == 1 && c.dp == 1; },
       "zero 1 shards states over data ranks, and dp is 1", "use --zero 0", kZero},
      {"stored_type",
       [](const Problem& p, const Candidate&) {
         const PrecisionRecipe& r = p.workload.recipe;
         return r.gradient != DType::fp32 || r.state != DType::fp32 || r.master != DType::fp32;
       },
       "these files sum gradients in fp32 (accumulate_grad_in_fp32), beside fp32 masters and "
       "states",
       "leave out --grad-dtype, --state-dtype and --master-weights", kAccumulator},
      {"offload_in_files",
       [](const Problem&, const Candidate& c) { return c.offload != Offload{}; },
       "nanotron offloads nothing: offload {offload}", "use --offload none", kConfig},
  };
}

}  // namespace

bool keeps_gathered(const Candidate& candidate) {
  return knob_value(candidate, emitted_knobs(), kGatherKnob) == "off";
}

const std::vector<Knob>& emitted_knobs() {
  static const std::vector<Knob> kKnobs{
      {kGatherKnob,
       {"on", "off"},
       "whether products gather their inputs again in backward, or keep them"}};
  return kKnobs;
}

std::vector<Rule> emit_rules() {
  return joined({{trains_only(kConfig), no_adapters(kConfig), one_context_rank(kParallelism),
                  no_expert_ranks(kParallelism), no_replicas(kZero),
                  recompute_among({RecomputeKind::none, RecomputeKind::full}, kParallelism),
                  precision_among({Precision::bf16}, kAccumulator),
                  optimizer_among({OptimizerKind::adamw}, kConfig),
                  known_knobs(emitted_knobs(), kParallelism)},
                 model_rules(),
                 tensor_rules(),
                 pipeline_rules(),
                 data_rules()});
}

}  // namespace planwright::targets::nanotron
