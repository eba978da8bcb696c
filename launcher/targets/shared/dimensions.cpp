#include "launcher/targets/shared/dimensions.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace planwright::targets {
namespace {

template <class Enum>
std::string words_of(const std::vector<Enum>& values) {
  std::vector<std::string> words;
  std::transform(values.begin(), values.end(), std::back_inserter(words),
                 [](Enum value) { return std::string(word(value)); });
  return join_words(words);
}

template <class T>
bool holds(const std::vector<T>& values, T value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

}  // namespace

Rule trains_only(const std::string& source) {
  return {
      "trains", [](const Problem& p, const Candidate&) { return p.workload.job == Job::inference; },
      "target {target} trains, and the job is inference",
      "use --job pretrain or finetune; an inference is for the verb estimate, under any target: no "
      "launch file of a server is written yet",
      source};
}

Rule one_stage(const std::string& source) {
  return {"one_stage",
          [](const Problem&, const Candidate& c) {
            return c.pp != 1 || c.vpp != 1 || c.schedule != Schedule::one_f_one_b;
          },
          "the files of target {target} have no pipeline stages: pp {pp}, vpp {vpp}, schedule "
          "{schedule}",
          "use --pp 1 --vpp 1 --schedule 1f1b", source};
}

Rule one_tensor_rank(const std::string& source) {
  return {"one_tensor_rank", [](const Problem&, const Candidate& c) { return c.tp != 1; },
          "the files of target {target} have no tensor parallelism: tp {tp}", "use --tp 1", source};
}

Rule one_context_rank(const std::string& source) {
  return {"one_context_rank", [](const Problem&, const Candidate& c) { return c.cp != 1; },
          "the files of target {target} have no context parallelism: cp {cp}", "use --cp 1",
          source};
}

Rule no_expert_ranks(const std::string& source) {
  return {"no_expert_ranks",
          [](const Problem&, const Candidate& c) { return c.ep != 1 || c.etp != 1; },
          "the files of target {target} have no expert parallelism: ep {ep}, etp {etp}",
          "use --ep 1 --etp 1", source};
}

Rule no_sequence_parallel(const std::string& source) {
  return {"no_sequence_parallel", [](const Problem&, const Candidate& c) { return c.sp; },
          "the files of target {target} have no sequence parallelism: sp {sp}", "use --sp off",
          source};
}

Rule no_replicas(const std::string& source) {
  return {"no_replicas", [](const Problem&, const Candidate& c) { return c.hsdp != 1; },
          "the files of target {target} shard over all data ranks: hsdp {hsdp}", "use --hsdp 1",
          source};
}

Rule equal_stages(const std::string& source) {
  return {"equal_stages", [](const Problem&, const Candidate& c) { return !c.stages.empty(); },
          "the files of target {target} treat all stages alike, and the plan has a part per stage",
          "use the uniform plan", source};
}

Rule stages_alike(const std::string& source) {
  return {"stages_alike",
          [](const Problem&, const Candidate& c) {
            return std::any_of(c.stages.begin(), c.stages.end(), [&](const StagePlan& stage) {
              return stage.recompute != c.recompute || stage.offload != c.offload || c.vpp != 1;
            });
          },
          "target {target} recomputes and offloads alike on every stage, and cuts virtual ones "
          "evenly",
          "use one recompute and one offload for all stages", source};
}

Rule stages_hold_the_model(const std::string& source) {
  return {"stages_hold_the_model",
          [](const Problem& p, const Candidate& c) {
            if (c.stages.empty()) return false;
            std::int64_t blocks = 0;
            for (const StagePlan& stage : c.stages) blocks += stage.blocks;
            return static_cast<int>(c.stages.size()) != c.pp || blocks != p.model.layers();
          },
          "the plan's stages are not pp {pp}, or do not hold the model's {layers} layers",
          "use stages whose blocks add up", source};
}

Rule disk_needs_zero_three(const std::string& source) {
  return {"disk_needs_zero_three",
          [](const Problem&, const Candidate& c) {
            return c.offload.to == OffloadTo::nvme && c.offload != Offload{} && c.zero != 3;
          },
          "DeepSpeed swaps to a disk what ZeRO 3 shards, and zero is {zero}",
          "use --zero 3, or --offload-to cpu", source};
}

Rule no_adapters(const std::string& source) {
  return {"no_adapters",
          [](const Problem& p, const Candidate&) {
            return p.model.lora.freezes() || p.workload.job == Job::lora ||
                   p.workload.job == Job::qlora;
          },
          "target {target} trains every weight, and the job has adapters", "use --job finetune",
          source};
}

Rule tp_divides_heads(const std::string& source) {
  return {"tp_divides_heads",
          [](const Problem& p, const Candidate& c) {
            return p.model.any_block([&](const BlockSpec& b) { return b.heads % c.tp != 0; });
          },
          "tp {tp} does not divide the model's {heads} heads", "use a --tp that divides {heads}",
          source};
}

Rule tp_divides_all_heads(const std::string& source) {
  return {"tp_divides_heads",
          [](const Problem& p, const Candidate& c) {
            return p.model.any_block(
                [&](const BlockSpec& b) { return b.heads % c.tp != 0 || b.kv_heads % c.tp != 0; });
          },
          "tp {tp} does not divide the model's {heads} heads and {kv_heads} key/value heads",
          "use a --tp that divides both", source};
}

Rule no_zero_one(const std::string& source) {
  return {"no_zero_one", [](const Problem&, const Candidate& c) { return c.zero == 1; },
          "zero 1 has no form in target {target}, which shards gradients with the optimizer",
          "use --zero 2 or 3", source};
}

Rule recompute_among(const std::vector<RecomputeKind>& kinds, const std::string& source) {
  return {"recompute_in_files",
          [kinds](const Problem&, const Candidate& c) { return !holds(kinds, c.recompute.kind); },
          "the files of target {target} have no words for recompute {recompute}",
          "use --recompute " + words_of(kinds), source};
}

Rule precision_among(const std::vector<Precision>& precisions, const std::string& source) {
  return {"precision_in_files",
          [precisions](const Problem& p, const Candidate&) {
            return !holds(precisions, p.workload.precision);
          },
          "the files of target {target} have no words for precision {precision}",
          "use --precision " + words_of(precisions), source};
}

Rule optimizer_among(const std::vector<OptimizerKind>& kinds, const std::string& source) {
  return {
      "optimizer_in_files",
      [kinds](const Problem& p, const Candidate&) { return !holds(kinds, p.workload.optimizer); },
      "the files of target {target} have no words for optimizer {optimizer}",
      "use --optimizer " + words_of(kinds), source};
}

Rule offload_of_all_states(const std::string& source) {
  return {
      "offload_of_all_states",
      [](const Problem&, const Candidate& c) {
        const Offload& o = c.offload;
        const bool apart = o.optimizer != o.params || o.to != OffloadTo::cpu;
        return apart || (o.params && c.zero < 2);
      },
      "target {target} offloads sharded weights, gradients and states together, and only to the "
      "host: offload {offload} to {offload_to} at zero {zero}",
      "use --offload none, or optimizer+params with --zero 2 or 3", source};
}

Rule fp32_updates(const std::string& source) {
  return {"fp32_updates",
          [](const Problem& p, const Candidate&) {
            return updated_type(p.workload.recipe) != DType::fp32;
          },
          "target {target} keeps the weights that the optimizer updates in fp32, and the plan does "
          "not",
          "use --master-weights on", source};
}

Rule replicas_divide_ranks(const std::string& source) {
  return {"replicas_divide_ranks",
          [](const Problem&, const Candidate& c) {
            return c.hsdp > 1 && (c.zero == 0 || c.dp % c.hsdp != 0 || c.dp == c.hsdp);
          },
          "hsdp {hsdp} replicas of sharded states do not come out of dp {dp} at zero {zero}",
          "use a --hsdp that divides dp {dp} and is smaller, with --zero 2 or 3", source};
}

int shard_ranks(const Candidate& candidate) { return candidate.dp / candidate.hsdp; }

DType updated_type(const PrecisionRecipe& recipe) { return recipe.master.value_or(recipe.storage); }

}  // namespace planwright::targets
