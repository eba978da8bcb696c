#include "cli/self_test_probes.h"

#include <fmt/format.h>

#include "cli/self_test_ledger.h"
#include "cli/targets.h"
#include "estimator/devices.h"
#include "launcher/probe_runner.h"

namespace planwright::cli {
namespace {

/// Learned positions, layer norm, biases, a plain MLP, a tied head.
ModelSpec gpt_model() {
  BlockSpec block{.heads = 4, .kv_heads = 4, .head_dim = 32, .ffn = 512};
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  ModelSpec model;
  model.name = "gpt";
  model.hidden = 128;
  model.vocab = 1000;
  model.max_positions = 1024;
  model.positions = Positions::learned;
  model.tied_embeddings = true;
  model.runs = {{2, block}};
  return model;
}

/// Rotary positions, RMS norm, a gated MLP, grouped heads.
ModelSpec llama_model(std::int64_t layers) {
  ModelSpec model;
  model.name = "llama";
  model.hidden = 128;
  model.vocab = 1000;
  model.max_positions = 1024;
  model.runs = {{layers,
                 {.heads = 4,
                  .kv_heads = 2,
                  .head_dim = 32,
                  .ffn = 344,
                  .mlp = MlpKind::gated,
                  .activation = Activation::silu,
                  .norm = NormKind::rms_norm}}};
  return model;
}

/// Sizes that nothing rounds to: 5 heads of 40, an odd vocabulary.
ModelSpec odd_model() {
  ModelSpec model = llama_model(3);
  model.name = "odd sizes";
  model.hidden = 200;
  model.vocab = 997;
  model.tied_embeddings = true;
  BlockSpec& block = model.runs.front().block;
  block.heads = 5;
  block.kv_heads = 1;
  block.head_dim = 40;
  block.ffn = 333;
  return model;
}

struct Shape {
  ModelSpec model;
  std::int64_t seq = 128;
  int micro_batch = 2, accumulation = 2;
};

std::vector<Shape> shapes() {
  Shape long_sequence{llama_model(1), 800, 1, 2};
  long_sequence.model.name = "long sequence";
  return {{gpt_model()}, {llama_model(2)}, {odd_model(), 100, 3, 2}, long_sequence};
}

SelfTestProbe probe_of(const Shape& shape, const DeviceSpec& device, const Candidate& candidate) {
  const TargetTraits& traits = self_test_traits();
  SelfTestProbe probe;
  probe.candidate = candidate;
  probe.candidate.micro_batch = shape.micro_batch;
  Problem& problem = probe.problem;
  problem.model = shape.model;
  problem.target = traits.name;
  problem.target_version = traits.version;
  problem.traits_revision = traits.revision;
  const int devices = static_cast<int>(candidate.world());
  problem.cluster = estimator::preset_cluster(device, devices, devices);
  problem.workload.seq = shape.seq;
  problem.workload.global_batch =
      std::int64_t{candidate.dp} * shape.micro_batch * shape.accumulation;
  problem.workload.precision = Precision::bf16;
  problem.workload.recipe = *traits.recipe(Precision::bf16);
  return probe;
}

/// The name says ZeRO's stage where there is one.
SelfTestProbe table_probe(const Shape& shape, const DeviceSpec& device, int zero,
                          RecomputeKind recompute) {
  Candidate candidate;
  candidate.zero = zero;
  candidate.recompute.kind = recompute;
  SelfTestProbe probe = probe_of(shape, device, candidate);
  probe.name = fmt::format("bytes: {}, {}recompute {}", shape.model.name,
                           zero > 0 ? fmt::format("zero {}, ", zero) : "", word(recompute));
  return probe;
}

Shape trace_shape() {
  Shape shape{llama_model(4), 256, 2, 4};
  shape.model.hidden = 256;
  shape.model.vocab = 4096;
  shape.model.runs.front().block.head_dim = 64;
  return shape;
}

}  // namespace

const TargetTraits& self_test_traits() { return find_target({"builtin", "", ""})->traits; }

probes::TrainJob job_of(const SelfTestProbe& probe) {
  probes::TrainJob job =
      launcher::make_train_job(probe.problem, probe.candidate, probe.scope, self_test_traits(), 0);
  if (probe.memory_limit) job.memory_budget = probe.memory_limit;
  return job;
}

SelfTestProbe trace_probe(const DeviceSpec& device) {
  SelfTestProbe probe = probe_of(trace_shape(), device, {});
  probe.name = "trace";
  return probe;
}

std::vector<SelfTestProbe> table_probes(const DeviceSpec& device) {
  std::vector<SelfTestProbe> probes;
  for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
    for (const Shape& shape : shapes()) probes.push_back(table_probe(shape, device, 0, recompute));
    for (const int zero : {1, 2, 3}) {
      probes.push_back(table_probe({llama_model(2)}, device, zero, recompute));
    }
  }
  return probes;
}

std::vector<SelfTestProbe> shadow_probes(const DeviceSpec& device) {
  std::vector<SelfTestProbe> probes;
  for (const int zero : {1, 3}) {
    Candidate candidate;
    candidate.tp = candidate.pp = candidate.dp = 2;
    candidate.sp = true;
    candidate.zero = zero;
    for (const int rank : {0, static_cast<int>(candidate.world()) - 1}) {
      SelfTestProbe probe = probe_of({llama_model(4)}, device, candidate);
      probe.name = fmt::format("shadow: rank {} of {}, zero {}", rank, candidate.world(), zero);
      probe.scope.kind = ScopeKind::shadow;
      probe.scope.rank = rank;
      probes.push_back(std::move(probe));
    }
  }
  return probes;
}

SelfTestProbe overfull_probe(const DeviceSpec& device) {
  Shape shape = trace_shape();
  shape.micro_batch *= shape.accumulation;
  shape.accumulation = 1;
  SelfTestProbe probe = probe_of(shape, device, {});
  probe.name = "out of memory";
  probe.memory_limit = Bytes{exact_ledger(probe).peak.tensors().value / 2};
  return probe;
}

}  // namespace planwright::cli
