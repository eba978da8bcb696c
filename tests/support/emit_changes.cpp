#include "tests/support/emit_changes.h"

#include <utility>

#include "tests/support/emit_requests.h"

namespace planwright::testing {

Change zero(int stage, RecomputeKind recompute, int micro_batch) {
  return [=](Problem&, Candidate& c) {
    c.zero = stage;
    c.recompute.kind = recompute;
    c.micro_batch = micro_batch;
  };
}

Change operator+(const Change& first, const Change& second) {
  return [=](Problem& p, Candidate& c) {
    first(p, c);
    second(p, c);
  };
}

Change offload(const char* parts, OffloadTo to) {
  return [offload = parse_offload(parts, "", ""), to](Problem&, Candidate& c) {
    c.offload = offload;
    c.offload.to = to;
  };
}

Change recompute(const char* text) {
  return [recompute = parse_recompute(text, "", "")](Problem&, Candidate& c) {
    c.recompute = recompute;
  };
}

Change precision(Precision word, const PrecisionRecipe& recipe) {
  return [=](Problem& p, Candidate&) {
    p.workload.precision = word;
    p.workload.recipe = recipe;
  };
}

Change fp32() {
  return precision(Precision::fp32,
                   {DType::fp32, DType::fp32, DType::fp32, std::nullopt, DType::fp32});
}
Change fp16() {
  return precision(Precision::fp16,
                   {DType::fp16, DType::fp16, DType::fp32, DType::fp32, DType::fp32});
}
Change pure_bf16() {
  return precision(Precision::bf16,
                   {DType::bf16, DType::bf16, DType::bf16, std::nullopt, DType::bf16});
}

Change gradients_in(DType type) {
  return [=](Problem& p, Candidate&) { p.workload.recipe.gradient = type; };
}

Change optimizer(OptimizerKind kind) {
  return [=](Problem& p, Candidate&) { p.workload.optimizer = kind; };
}

Change knob(const char* name, const char* value) {
  return [=](Problem&, Candidate& c) { c.knobs.emplace_back(name, value); };
}

Change ranks(int tp, int pp, int cp) {
  return [=](Problem&, Candidate& c) {
    c.tp = tp;
    c.pp = pp;
    c.cp = cp;
    c.dp /= tp * pp * cp;
  };
}

Change sp() {
  return [](Problem&, Candidate& c) { c.sp = true; };
}

Change replicas(int hsdp) {
  return [=](Problem&, Candidate& c) { c.hsdp = hsdp; };
}

Change nodes(int count) {
  return [=](Problem& p, Candidate& c) {
    p.cluster.nodes = count;
    c.dp *= count;
  };
}

Change cpu_ranks(int count) {
  return [=](Problem& p, Candidate& c) {
    p.cluster.device.name = "CPU";
    p.cluster.device.kind = DeviceKind::cpu;
    p.cluster.per_node = c.dp = count;
  };
}

Change schedule(Schedule kind, int vpp) {
  return [=](Problem&, Candidate& c) {
    c.schedule = kind;
    c.vpp = vpp;
  };
}

Change uneven(std::vector<std::int64_t> blocks) {
  return [=](Problem&, Candidate& c) {
    for (const std::int64_t each : blocks) c.stages.push_back({each, c.recompute, c.offload});
  };
}

Change sizes(std::int64_t hidden, std::int64_t layers, std::int64_t ffn, std::int64_t vocab) {
  return [=](Problem& p, Candidate&) {
    BlockSpec& block = p.model.runs[0].block;
    p.model.name = "own sizes";
    p.model.hidden = hidden;
    p.model.vocab = vocab;
    p.model.runs[0].count = layers;
    block.ffn = ffn;
    block.heads = hidden / block.head_dim;
    block.kv_heads = block.heads / 2;
  };
}

Change qwen3(bool tied) {
  return [=](Problem& p, Candidate&) {
    p.model.runs[0].block.qk_norm = true;
    p.model.tied_embeddings = tied;
    p.model.rope_scaling.reset();
  };
}

Change tuned() {
  return [](Problem& p, Candidate&) { p.workload.job = Job::finetune; };
}

Change experts(std::int64_t count, int ep) {
  return [=](Problem& p, Candidate& c) {
    BlockSpec sparse = p.model.runs[0].block;
    sparse.ffn = 0;
    sparse.moe = MoeSpec{.experts = count, .top_k = 2, .ffn = 1024, .shared_ffn = 2048};
    p.model.name = "experts behind a dense layer";
    p.model.runs[0].count = 1;
    p.model.runs.push_back({15, sparse});
    c.ep = ep;
  };
}

}  // namespace planwright::testing
