/// Writes plans for all emitters into folders, with what the real parsers must find in them:
/// `emit-matrix FOLDER`. tests/frameworks/parser_matrix.py runs it and asks the parsers.

#include <fmt/core.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>

#include "launcher/files.h"
#include "launcher/targets/accelerate/emit.h"
#include "launcher/targets/deepspeed/emit.h"
#include "launcher/targets/fsdp/emit.h"
#include "launcher/targets/hf_trainer/emit.h"
#include "launcher/targets/megatron/emit.h"
#include "launcher/targets/megatron_deepspeed/emit.h"
#include "launcher/targets/torchtitan/emit.h"
#include "tests/support/emit_changes.h"
#include "tests/support/emit_requests.h"

namespace planwright::testing {
namespace {

namespace fs = std::filesystem;
using launcher::EmitRequest;

/// What one parser is given, and the values that it must end up with.
struct Check {
  std::string parser;
  std::string file;
  Json expected;
  int world = 0;  ///< ranks that the parser is to be among; 0: the plan's
};

struct Kind {
  const char* target;
  const char* version;
  launcher::LaunchConfig (*emit)(const EmitRequest&);
  std::vector<Check> (*checks)(const Problem&, const Candidate&);
  std::vector<Change> changes;
};

Json torchrun_values(const Problem& p) {
  return {{"world", p.cluster.devices()},
          {"nodes", p.cluster.nodes},
          {"nproc_per_node", p.cluster.per_node},
          {"max_restarts", 0}};
}

Json batch_values(const Problem& p, const Candidate& c) {
  return {{"world", c.world()},
          {"dp", c.dp},
          {"micro_batch", c.micro_batch},
          {"grad_accum", p.workload.global_batch / (c.dp * c.micro_batch)},
          {"global_batch", p.workload.global_batch}};
}

std::string offload_device(bool offloaded, const Candidate& c) {
  return offloaded ? std::string(word(c.offload.to)) : "none";
}

std::string knob_of(const Candidate& c, const char* name, const char* usual) {
  for (const auto& [key, value] : c.knobs) {
    if (key == name) return value;
  }
  return usual;
}

std::vector<Check> deepspeed_checks(const Problem& p, const Candidate& c) {
  Json json = batch_values(p, c);
  json["tp"] = c.tp;
  json["zero"] = c.zero;
  json["precision"] = word(p.workload.precision);
  json["offload_optimizer"] = offload_device(c.offload.optimizer, c);
  json["offload_param"] = offload_device(c.offload.params, c);
  json["gradient_clipping"] = 1.0;
  json["reduce_bucket"] = std::stoll(knob_of(c, "reduce_bucket_size", "500000000"));
  const std::string overlap = knob_of(c, "overlap_comm", "auto");
  json["overlap_comm"] = overlap == "auto" ? c.zero == 3 : overlap == "on";
  if (p.workload.optimizer != OptimizerKind::adafactor) {
    json["optimizer"] = word(p.workload.optimizer);
  }
  return {{"deepspeed", "ds_config.json", json}, {"torchrun", "launch.sh", torchrun_values(p)}};
}

/// Of the ranks that hold the same part of the model, which the engine is one of.
std::vector<Check> megatron_deepspeed_checks(const Problem& p, const Candidate& c) {
  Json json = batch_values(p, c);
  json["world"] = c.dp;
  json["zero"] = c.zero;
  json["precision"] = word(p.workload.precision);
  json["gradient_clipping"] = 1.0;
  return {{"deepspeed", "ds_config.json", json, c.dp},
          {"torchrun", "launch.sh", torchrun_values(p)}};
}

std::vector<Check> accelerate_checks(const Problem& p, const Candidate& c) {
  const std::string engine = knob_of(c, "engine", "fsdp2");
  const bool cpu = p.cluster.device.kind == DeviceKind::cpu;
  const bool deepspeed = engine == "deepspeed";
  const Precision word_of = p.workload.precision;
  Json json{{"world", c.world()}, {"nodes", p.cluster.nodes},
            {"tp", c.tp},         {"cp", c.cp},
            {"dp", c.dp},         {"zero", c.zero}};
  json["precision"] = word_of == Precision::fp32 ? "no" : std::string(word(word_of));
  if (deepspeed) {
    json["kind"] = "DEEPSPEED";
    json["grad_accum"] = p.workload.global_batch / (c.dp * c.micro_batch);
    json["offload_optimizer"] = offload_device(c.offload.optimizer, c);
    json["offload_param"] = offload_device(c.offload.params, c);
  } else if (c.zero > 0) {
    json["kind"] = "FSDP";
    json["fsdp_version"] = engine == "fsdp2" ? 2 : 1;
    json["offload_params"] = c.offload.params;
    json["recompute"] = word(c.recompute.kind);
  } else {
    json["kind"] = cpu ? "MULTI_CPU" : "MULTI_GPU";
  }
  if (c.hsdp > 1 && engine == "fsdp2") json["dp_replicate"] = c.hsdp;
  return {{"accelerate", "accelerate.yaml", json}};
}

std::vector<Check> trainer_checks(const Problem& p, const Candidate& c) {
  const bool deepspeed = knob_of(c, "engine", "fsdp2") == "deepspeed";
  Json json = batch_values(p, c);
  json["zero"] = c.zero;
  json["engine"] = deepspeed ? "deepspeed" : c.zero > 0 ? "fsdp" : "ddp";
  json["precision"] = word(p.workload.precision);
  json["recompute"] = word(c.recompute.kind);
  if (deepspeed) json["deepspeed_global_batch"] = p.workload.global_batch;
  return {{"transformers", "training_arguments.yaml", json},
          {"transformers", "launch.sh", json},
          {"torchrun", "launch.sh", torchrun_values(p)}};
}

std::string torch_word(DType type) {
  return type == DType::bf16 ? "bfloat16" : type == DType::fp16 ? "float16" : "float32";
}

std::vector<Check> fsdp_checks(const Problem& p, const Candidate& c) {
  Json json = batch_values(p, c);
  json["zero"] = c.zero;
  json["dp_replicate"] = c.zero == 0 ? c.dp : c.hsdp;
  json["dp_shard"] = c.zero == 0 ? 1 : c.dp / c.hsdp;
  json["precision"] = torch_word(p.workload.recipe.compute);
  json["storage"] = torch_word(p.workload.recipe.master.value_or(p.workload.recipe.storage));
  json["offload"] = c.offload.params;
  const std::int64_t layers = p.model.layers();
  const std::int64_t k = c.recompute.k;
  json["recomputed_blocks"] = c.recompute.kind == RecomputeKind::full        ? layers
                              : c.recompute.kind == RecomputeKind::alternate ? (layers + k - 1) / k
                                                                             : k;
  json["offloaded_blocks"] = c.offload.activations ? layers : 0;
  return {{"fsdp", "fsdp_settings.json", json}, {"torchrun", "launch.sh", torchrun_values(p)}};
}

Json titan_values(const Problem& p, const Candidate& c) {
  Json json{{"world", c.world()},
            {"tp", c.tp},
            {"pp", c.pp},
            {"cp", c.cp},
            {"dp", c.dp},
            {"dp_replicate", c.zero == 0 ? c.dp : c.hsdp},
            {"dp_shard", c.zero == 0 ? 1 : c.dp / c.hsdp},
            {"micro_batch", c.micro_batch},
            {"local_batch", c.pp == 1 ? c.micro_batch : p.workload.global_batch / c.dp},
            {"global_batch", p.workload.global_batch},
            {"seq_len", p.workload.seq},
            {"zero", c.zero}};
  json["precision"] = torch_word(p.workload.recipe.compute);
  json["storage"] = torch_word(p.workload.recipe.master.value_or(p.workload.recipe.storage));
  json["optimizer_offload"] = c.offload.optimizer;
  return json;
}

std::vector<Check> titan2_checks(const Problem& p, const Candidate& c) {
  Json json = titan_values(p, c);
  const RecomputeKind kind = c.recompute.kind;
  json["recompute"] = kind == RecomputeKind::op ? "selective:op"
                      : kind == RecomputeKind::alternate
                          ? "selective:" + std::to_string(c.recompute.k)
                          : std::string(word(kind));
  json["optimizer"] = "AdamW";
  return {{"torchtitan", "torchtitan.toml", json}, {"torchrun", "launch.sh", torchrun_values(p)}};
}

std::vector<Check> titan3_checks(const Problem& p, const Candidate& c) {
  Json json = titan_values(p, c);
  const RecomputeKind kind = c.recompute.kind;
  json["recompute"] = kind == RecomputeKind::op     ? "SelectiveAC"
                      : kind == RecomputeKind::full ? "FullAC"
                                                    : "NoneType";
  json["cuda_graphs"] = c.pp == 1;
  return {{"torchtitan", "planwright_config.py", json},
          {"torchrun", "launch.sh", torchrun_values(p)}};
}

std::string megatron_recompute(const Recompute& recompute) {
  const std::string k = std::to_string(recompute.k);
  switch (recompute.kind) {
    case RecomputeKind::full:
      return "full-uniform-1";
    case RecomputeKind::chunk:
      return "full-uniform-" + k;
    case RecomputeKind::first:
      return "full-block-" + k;
    case RecomputeKind::selective:
      return recompute.modules.empty() ? "selective:core_attn" : recompute_text(recompute);
    default:
      return "none";
  }
}

std::vector<Check> megatron_checks(const Problem& p, const Candidate& c) {
  const BlockSpec& last = p.model.block(p.model.layers() - 1);
  Json json = batch_values(p, c);
  json["tp"] = c.tp;
  json["sp"] = c.sp;
  json["pp"] = c.pp;
  json["vpp"] = c.vpp;
  json["cp"] = c.cp;
  json["ep"] = c.ep;
  json["zero"] = c.zero;
  json["seq_len"] = p.workload.seq;
  json["precision"] = word(p.workload.precision);
  json["grads_in_fp32"] = p.workload.recipe.gradient == DType::fp32;
  json["recompute"] = megatron_recompute(c.recompute);
  json["optimizer"] = p.workload.optimizer == OptimizerKind::sgd ? "sgd" : "adam";
  json["optimizer_offload"] = c.offload.optimizer;
  json["layers"] = p.model.layers();
  json["hidden"] = p.model.hidden;
  json["ffn"] = p.model.block(0).ffn;
  json["heads"] = last.heads;
  json["kv_groups"] = last.kv_heads;
  json["experts"] = last.moe ? last.moe->experts : 0;
  return {{"megatron", "launch.sh", json}, {"torchrun", "launch.sh", torchrun_values(p)}};
}

std::vector<Kind> kinds() {
  using enum RecomputeKind;
  using enum OptimizerKind;
  const Change deepspeed_engine = knob("engine", "deepspeed");
  const Change fsdp1 = knob("engine", "fsdp1");
  const Change own_llama = sizes(1024, 6, 3000, 5000);
  return {
      {"deepspeed",
       "0.19.8",
       targets::deepspeed::emit,
       deepspeed_checks,
       {zero(0), zero(1, none, 2), zero(2, none, 4), zero(3, full), zero(2) + offload("optimizer"),
        zero(3) + offload("optimizer+params"), zero(3) + offload("optimizer", OffloadTo::nvme),
        zero(3, full) + offload("optimizer+params+activations"), zero(2) + fp16(), zero(1) + fp32(),
        zero(1) + ranks(2), zero(3) + ranks(4), zero(3, full) + nodes(2), zero(2) + optimizer(lion),
        zero(0) + optimizer(sgd), zero(1) + optimizer(adafactor),
        zero(2) + knob("reduce_bucket_size", "50000000") + knob("overlap_comm", "on"),
        zero(1) + cpu_ranks(2)}},
      {"accelerate",
       "1.15.0",
       targets::accelerate::emit,
       accelerate_checks,
       {zero(0),
        zero(3, full),
        zero(2),
        zero(3) + offload("optimizer+params"),
        zero(3, full) + replicas(2),
        zero(3) + ranks(2),
        zero(3) + ranks(1, 1, 2),
        zero(2) + ranks(2, 1, 2),
        zero(3) + fp16(),
        zero(2) + fp32(),
        zero(3, full) + nodes(2),
        zero(3, full) + fsdp1,
        zero(2) + fsdp1,
        zero(3) + nodes(2) + replicas(2) + fsdp1,
        zero(0) + deepspeed_engine,
        zero(1) + deepspeed_engine,
        zero(2) + offload("optimizer") + deepspeed_engine,
        zero(3) + offload("optimizer+params") + deepspeed_engine,
        zero(3) + offload("optimizer", OffloadTo::nvme) + nodes(2) + deepspeed_engine,
        zero(0) + cpu_ranks(2)}},
      {"hf-trainer",
       "5.23.0",
       targets::hf_trainer::emit,
       trainer_checks,
       {zero(0), zero(0, full, 2), zero(3, full), zero(2, none, 4),
        zero(3) + offload("optimizer+params"), zero(3, full) + fp16(), zero(2) + fp32(),
        zero(3) + optimizer(adam8bit), zero(0) + optimizer(paged_adam8bit),
        zero(0) + optimizer(lion), zero(0) + optimizer(adafactor), zero(1) + deepspeed_engine,
        zero(2, full) + offload("optimizer") + deepspeed_engine,
        zero(3) + offload("optimizer+params") + deepspeed_engine, zero(3, full) + nodes(2),
        zero(0, full) + cpu_ranks(2)}},
      {"fsdp",
       "2.11.0",
       targets::fsdp::emit,
       fsdp_checks,
       {zero(0), zero(2), zero(3, full), zero(3) + replicas(2), zero(2) + replicas(4),
        zero(3) + offload("optimizer+params"), zero(3, full) + offload("activations"),
        zero(3) + recompute("alternate:3"), zero(2) + recompute("first:8"),
        zero(3, full, 2) + fp32(), zero(3) + pure_bf16(), zero(3, full) + nodes(2),
        zero(0) + cpu_ranks(2)}},
      {"megatron",
       "0.19.2",
       targets::megatron::emit,
       megatron_checks,
       {zero(2) + ranks(2),
        zero(3, full) + ranks(2) + sp(),
        zero(0),
        zero(1, full),
        zero(1) + replicas(2),
        zero(1) + offload("activations"),
        zero(1) + knob("overlap_grad_reduce", "off"),
        zero(1, full, 2) + ranks(2) + sp(),
        zero(1) + ranks(2),
        zero(1, full) + ranks(1, 2),
        zero(0) + ranks(2, 4) + sp() + recompute("first:4"),
        zero(1) + ranks(1, 2) + schedule(Schedule::interleaved, 2) + recompute("chunk:4"),
        zero(1, full) + ranks(1, 2) + uneven({20, 12}),
        zero(1) + sizes(1024, 7, 4096, 5000) + ranks(1, 2),
        zero(1) + ranks(1, 1, 2),
        zero(1) + ranks(2, 1, 2) + sp(),
        zero(1) + recompute("selective"),
        zero(1) + recompute("selective:core_attn+layernorm+mlp"),
        zero(1) + fp16(),
        zero(1) + gradients_in(DType::bf16),
        zero(1) + optimizer(sgd),
        zero(1) + offload("optimizer"),
        zero(1) + qwen3(true),
        zero(1, full) + nodes(2),
        zero(1) + experts(8, 4),
        zero(1, full) + experts(8, 4) + ranks(2) + sp(),
        zero(1, full) + tuned()}},
      {"megatron-deepspeed",
       "0.5.10",
       targets::megatron_deepspeed::emit,
       megatron_deepspeed_checks,
       {zero(0) + fp16(), zero(1, full) + fp16(), zero(1, none, 2) + fp16() + ranks(2),
        zero(1, full) + fp16() + ranks(1, 2), zero(1, full) + fp16() + ranks(2, 4) + nodes(2)}},
      {"torchtitan",
       "0.2.2",
       targets::torchtitan::emit,
       titan2_checks,
       {zero(0),
        zero(3, full),
        zero(2),
        zero(3) + replicas(2),
        zero(3, op),
        zero(3) + recompute("alternate:2"),
        zero(3) + offload("optimizer+params"),
        zero(3) + ranks(2) + sp(),
        zero(2, full) + ranks(4) + sp(),
        zero(3) + ranks(1, 1, 2),
        zero(3) + ranks(2, 1, 2) + sp(),
        zero(2) + ranks(1, 2),
        zero(3, full) + ranks(1, 4) + schedule(Schedule::gpipe, 1),
        zero(2) + ranks(1, 2) + schedule(Schedule::interleaved, 2),
        zero(2) + ranks(2, 2) + sp() + schedule(Schedule::zero_bubble, 2),
        zero(3, full) + ranks(1, 2) + uneven({20, 12}),
        zero(3) + pure_bf16(),
        zero(3) + fp32(),
        zero(3, full) + nodes(2),
        zero(3, full) + own_llama,
        zero(2) + sizes(1024, 5, 3000, 5000) + qwen3(true),
        zero(3, full) + tuned()}},
      {"torchtitan",
       "0.3.0",
       targets::torchtitan::emit,
       titan3_checks,
       {zero(3, full), zero(2), zero(3, op), zero(3, full) + ranks(2) + sp(),
        zero(3, full) + ranks(2), zero(2, full) + ranks(1, 2), zero(3, full) + replicas(2),
        zero(3, full) + tuned()}},
  };
}

EmitRequest request_of(const Kind& kind, const Change& change, const fs::path& folder) {
  Candidate candidate = sharded_candidate();
  candidate.zero = 0;
  candidate.recompute = {};
  EmitRequest request = emit_request(kind.target, kind.version, candidate);
  change(request.plan.problem, request.plan.candidate);
  request.out = folder.string();
  request.plan.evidence.study = "matrix";
  return request;
}

std::string plan_text(const EmitRequest& request) {
  const auto& [problem, candidate, evidence] = request.plan;
  std::string text = describe(candidate);
  const Workload usual;
  if (problem.workload.precision != usual.precision) {
    text += fmt::format(", {}", word(problem.workload.precision));
  }
  if (problem.workload.recipe.storage == DType::bf16 && !problem.workload.recipe.master) {
    text += ", bf16 only";
  }
  if (problem.workload.optimizer != usual.optimizer) {
    text += fmt::format(", {}", word(problem.workload.optimizer));
  }
  if (problem.model.name != llama_8b().name) {
    text += fmt::format(", {} layers of {}", problem.model.layers(), problem.model.hidden);
  }
  if (problem.workload.job != usual.job) text += fmt::format(", {}", word(problem.workload.job));
  if (problem.cluster.device.kind == DeviceKind::cpu) text += ", CPU";
  return text;
}

void write_plan(const Kind& kind, const Change& change, const fs::path& folder) {
  const EmitRequest request = request_of(kind, change, folder);
  launcher::write_files(kind.emit(request), false);
  Json checks = Json::array();
  for (const Check& check : kind.checks(request.plan.problem, request.plan.candidate)) {
    const int world = check.world > 0 ? check.world : request.plan.candidate.world();
    checks.push_back({{"parser", check.parser},
                      {"file", check.file},
                      {"expected", check.expected},
                      {"world", world}});
  }
  const Json json{{"target", fmt::format("{} {}", kind.target, kind.version)},
                  {"plan", plan_text(request)},
                  {"checks", checks}};
  launcher::replace_file((folder / "expected.json").string(), json.dump(2) + "\n");
}

}  // namespace
}  // namespace planwright::testing

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: emit-matrix FOLDER\n");
    return 2;
  }
  int number = 0;
  for (const auto& kind : planwright::testing::kinds()) {
    for (const auto& change : kind.changes) {
      planwright::testing::write_plan(
          kind, change, std::filesystem::absolute(argv[1]) / fmt::format("{:03}", number++));
    }
  }
  fmt::print("{} plans\n", number);
  return 0;
}
