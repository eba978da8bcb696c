#include "tests/support/fake_traits.h"

namespace planwright::testing {
namespace {

std::int64_t storage_bytes(const PrecisionRecipe& r) { return bytes_of(r.storage); }
std::int64_t gradient_bytes(const PrecisionRecipe& r) { return bytes_of(r.gradient); }
std::int64_t master_bytes(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t state_bytes(const PrecisionRecipe& r) { return bytes_of(r.state); }
std::int64_t table_bytes(const PrecisionRecipe& r) {
  return bytes_of(accumulation_type(r.compute));
}
std::int64_t counter_bytes(const PrecisionRecipe&) { return 4; }

ShardedBy whole(const Candidate&) { return ShardedBy::nothing; }
ShardedBy by_zero(const Candidate& c) {
  return c.zero >= 1 ? ShardedBy::data_ranks : ShardedBy::nothing;
}
bool has_moments(const Problem& p, const Candidate&) {
  return p.workload.optimizer == OptimizerKind::adamw;
}

std::optional<PrecisionRecipe> recipe(Precision precision) {
  const auto uniform = [](DType t) { return PrecisionRecipe{t, t, t, std::nullopt, t}; };
  switch (precision) {
    case Precision::fp64:
      return uniform(DType::fp64);
    case Precision::fp32:
      return uniform(DType::fp32);
    case Precision::bf16:
      return PrecisionRecipe{DType::bf16, DType::bf16, DType::fp32, DType::fp32, DType::fp32};
    case Precision::fp16:
      return PrecisionRecipe{DType::fp16, DType::fp16, DType::fp32, DType::fp32, DType::fp32};
    default:
      return std::nullopt;
  }
}

std::vector<Holding> holdings() {
  using enum Account;
  using enum HoldingOf;
  constexpr auto kFrom = Phase::load;
  constexpr auto kTo = Phase::optimizer;
  return {
      {parameters, flat_parameters, storage_bytes, 1, whole, kFrom, kTo, nullptr, "test"},
      {parameters, rope_table, table_bytes, 1, whole, kFrom, kTo, nullptr, "test"},
      {gradients, flat_parameters, gradient_bytes, 1, whole, kFrom, kTo, nullptr, "test"},
      {optimizer, flat_parameters, master_bytes, 1, by_zero, kFrom, kTo, nullptr, "test"},
      {optimizer, flat_parameters, state_bytes, 2, by_zero, kFrom, kTo, has_moments, "test"},
      {optimizer, step_counters, counter_bytes, 1, whole, kFrom, kTo, has_moments, "test"},
  };
}

ModelSpec tiny(const BlockSpec& block, Positions positions) {
  ModelSpec model;
  model.name = "tiny";
  model.hidden = 24;
  model.vocab = 50;
  model.max_positions = 32;
  model.positions = positions;
  model.runs = {{2, block}};
  return model;
}

}  // namespace

TargetTraits fake_traits(std::int64_t bucket_elements) {
  TargetTraits traits;
  traits.name = "fake";
  traits.version = "1";
  traits.holdings = holdings();
  traits.axes.zero = {0, 1};
  traits.axes.recompute = {Recompute{},
                           Recompute{.kind = RecomputeKind::full, .k = 0, .modules = {}}};
  traits.recipe = recipe;
  traits.kernels = [](DeviceKind kind) {
    return kind == DeviceKind::cpu ? KernelSet::in_place : KernelSet::composed;
  };
  traits.transport = [](DeviceKind kind) {
    return kind == DeviceKind::cpu ? Transport::gloo : Transport::nccl;
  };
  traits.bucket_elements = [bucket_elements](const Candidate&) { return bucket_elements; };
  traits.overlaps = [](const Candidate&) { return true; };
  return traits;
}

TargetTraits fake_traits_with_knobs() {
  TargetTraits traits = fake_traits();
  traits.knobs = {{"overlap", {"off", "on"}, ""}, {"buckets", {"small", "large"}, ""}};
  return traits;
}

ModelSpec tiny_gpt() {
  BlockSpec block{.heads = 3, .kv_heads = 3, .head_dim = 8, .ffn = 40};
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  return tiny(block, Positions::learned);
}

ModelSpec tiny_llama() {
  BlockSpec block{.heads = 4, .kv_heads = 2, .head_dim = 8, .ffn = 40};
  block.mlp = MlpKind::gated;
  block.activation = Activation::silu;
  block.norm = NormKind::rms_norm;
  return tiny(block, Positions::rotary);
}

Problem fake_problem(const ModelSpec& model, int devices, Precision precision) {
  Problem problem;
  problem.model = model;
  problem.cluster.device.name = "test";
  problem.cluster.device.memory = problem.cluster.device.memory_stated = Bytes{1 << 30};
  problem.cluster.device.memory_bandwidth = BytesPerSecond{1e10};
  problem.cluster.device.fp32 = FlopsPerSecond{1e11};
  problem.cluster.per_node = devices;
  problem.cluster.links = {{"loopback", BytesPerSecond{2e9}, Seconds{2e-5}, devices}};
  problem.workload.seq = 16;
  problem.workload.global_batch = 8;
  problem.workload.precision = precision;
  problem.workload.recipe = recipe(precision).value();
  problem.workload.headroom = {.fraction = 0, .bytes = {}};
  problem.target = "fake";
  problem.target_version = "1";
  return problem;
}

Candidate data_parallel(int dp, int zero, int micro_batch, RecomputeKind recompute) {
  Candidate candidate;
  candidate.dp = dp;
  candidate.zero = zero;
  candidate.micro_batch = micro_batch;
  candidate.recompute.kind = recompute;
  return candidate;
}

}  // namespace planwright::testing
