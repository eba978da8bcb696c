#include "tests/support/samples.h"

namespace planwright::testing {
namespace {

/// Account i holds first + i bytes; those outside the allocator nothing unless `outside`.
Ledger sample_ledger(std::int64_t first, bool outside) {
  Ledger ledger;
  for (std::size_t i = 0; i < ledger.bytes.size(); ++i) {
    const auto account = static_cast<Account>(i);
    const bool inside = account != Account::context && account != Account::fragmentation;
    if (inside || outside) ledger[account] = Bytes{first + static_cast<std::int64_t>(i)};
  }
  return ledger;
}

ModelSpec sample_model() {
  const BlockSpec block{.heads = 8,
                        .kv_heads = 4,
                        .head_dim = 32,
                        .ffn = 688,
                        .mlp = MlpKind::gated,
                        .activation = Activation::silu,
                        .norm = NormKind::rms_norm,
                        .qkv_bias = true,
                        .out_bias = true,
                        .mlp_bias = true,
                        .sliding_window = 64};
  return {.name = "sample",
          .family = "llama",
          .hidden = 256,
          .vocab = 4096,
          .max_positions = 1024,
          .positions = Positions::learned,
          .rope_theta = 500000.0,
          .norm_eps = 1e-6,
          .tied_embeddings = true,
          .runs = {{3, block}, {2, BlockSpec{.heads = 8, .kv_heads = 8, .head_dim = 32, .ffn = 9}}},
          .lora = {}};
}

ClusterSpec sample_cluster() {
  const DeviceSpec device{.name = "A100-80GB",
                          .kind = DeviceKind::cuda,
                          .memory = Bytes{84'987'740'160},
                          .memory_stated = Bytes{85'899'345'920},
                          .fp64 = FlopsPerSecond{19.5e12},
                          .fp32 = FlopsPerSecond{19.4e12},
                          .tf32 = FlopsPerSecond{156e12},
                          .bf16 = FlopsPerSecond{312e12},
                          .fp16 = FlopsPerSecond{311e12},
                          .fp8 = FlopsPerSecond{1e12},
                          .memory_bandwidth = BytesPerSecond{2.039e12},
                          .source = "data sheet"};
  return {.device = device,
          .per_node = 8,
          .nodes = 2,
          .links = {{"nvlink", BytesPerSecond{3e11}, Seconds{2.5e-6}, 8},
                    {"infiniband", BytesPerSecond{2.5e10}, Seconds{5e-6}, 16}},
          .host_memory = Bytes{2'199'023'255'552},
          .pcie = BytesPerSecond{2.5e10},
          .price_per_device_hour = 1.79,
          .threads_per_rank = 4};
}

}  // namespace

Problem sample_problem() {
  const PrecisionRecipe recipe{.storage = DType::bf16,
                               .compute = DType::bf16,
                               .gradient = DType::bf16,
                               .master = DType::fp32,
                               .state = DType::bf16};
  const Workload workload{.job = Job::finetune,
                          .seq = 2048,
                          .global_batch = 64,
                          .optimizer = OptimizerKind::lion,
                          .precision = Precision::fp16,
                          .recipe = recipe,
                          .headroom = {.fraction = 0.1, .bytes = Bytes{1 << 30}}};
  return {.model = sample_model(),
          .cluster = sample_cluster(),
          .workload = workload,
          .target = "sample",
          .target_version = "1.2.3",
          .traits_revision = 7};
}

Candidate sample_candidate() {
  Candidate c;
  c.tp = 2, c.pp = 3, c.vpp = 4, c.cp = 5, c.ep = 6, c.etp = 7, c.dp = 8;
  c.zero = 3;
  c.hsdp = 2;
  c.sp = true;
  c.micro_batch = 16;
  c.schedule = Schedule::zero_bubble;
  c.recompute = {RecomputeKind::selective, 0, {"attention", "mlp"}};
  c.offload = {.optimizer = true, .params = false, .activations = true, .to = OffloadTo::nvme};
  c.attention = AttentionKernel::eager;
  c.loss = LossKernel::chunked;
  c.knobs = {{"bucket", "large"}, {"a_later_one", "2"}};
  c.stages = {{10, {RecomputeKind::chunk, 4, {}}, {.params = true, .to = OffloadTo::nvme}},
              {12, {RecomputeKind::full, 0, {}}, {}}};
  return c;
}

Calibration sample_calibration() {
  return {.coefficients = {{"matrix_efficiency", Transform::logit, 0.3, 0.5, 0.7, 0.1, "measured"},
                           {"link_latency", Transform::log, -11.5, 1.5, -11.0, 0.2, "guess"}},
          .covariance = {0.01, -0.002, -0.002, 0.04},
          .time_noise = 0.07,
          .memory_noise = 0.001,
          .observations = 12};
}

HostRates sample_rates() {
  return {.world = 2,
          .threads = 3,
          .matmul_fp32_flops_per_s = 5.1e10,
          .matmul_bf16_flops_per_s = 7.3e10,
          .copy_bytes_per_s = 1.1e10,
          .kernel_overhead_s = 2.7e-6,
          .all_reduce_latency_s = 4.4e-5,
          .all_reduce_bytes_per_s = 1.2e9,
          .broadcast_bytes_per_s = 1.9e9,
          .gemm_scratch_bytes = 1'234'567};
}

Estimate sample_estimate(bool on_device) {
  const auto maybe = [&](std::int64_t bytes) {
    return on_device ? std::optional(Bytes{bytes}) : std::nullopt;
  };
  Estimate e;
  e.verdict = Verdict::too_large;
  e.reason = "activations do not fit";
  e.parameters = {.total = 4'999'424, .trainable = 4'000'000, .active = 3'000'000};
  e.peak_rank = 3;
  e.peak_stage = 1;
  e.stages = {
      {0, Phase::loss, sample_ledger(1000, on_device), Bytes{15'000}, maybe(20'000), maybe(30'000)},
      {1, Phase::backward, sample_ledger(2000, on_device), Bytes{25'000}, maybe(40'000),
       maybe(50'000)}};
  e.loaded = sample_ledger(500, on_device);
  e.host_bytes = Bytes{77'777};
  e.wall = Wall::moves;
  e.step_time = Seconds{0.21};
  e.time = {.compute = Seconds{0.1},
            .recompute = Seconds{0.05},
            .communication = Seconds{0.03},
            .bubble = Seconds{0.01},
            .optimizer = Seconds{0.015},
            .offload = Seconds{0.005}};
  e.tokens_per_second_per_device = 1234.5;
  e.mfu = 0.43;
  e.memory_rel = 0.01;
  e.time_rel = 0.2;
  e.fit_probability = 0.125;
  e.calibration = "0123456789ab";
  return e;
}

RankMeasurement sample_rank(int rank, bool on_device) {
  RankMeasurement m;
  m.rank = rank;
  m.loaded = sample_ledger(100, on_device);
  m.step_end = sample_ledger(200, on_device);
  m.peak = sample_ledger(400, on_device);
  m.peak_phase = Phase::loss;
  m.tensors = sample_ledger(300, on_device);
  m.tensors_phase = Phase::backward;
  if (on_device) {
    m.reserved_peak = Bytes{9'000};
    m.device_peak = Bytes{10'000};
  } else {
    m.rss_peak = Bytes{11'000};
  }
  m.steps_s = {0.1 + rank, 0.3, 0.2};
  m.startup_s = 1.5;
  return m;
}

Outcome measured_outcome(bool on_device) {
  Measurement m;
  m.ranks = {sample_rank(0, on_device), sample_rank(1, on_device)};
  m.steps_s = {1.1, 0.3, 0.2};
  m.step_time_s = 0.3;
  m.tokens_per_second_per_device = 1.0 / 3.0;
  m.losses = {8.3178, 8.3, 8.25};
  return {.value = m, .environment = {{"torch", "2.11.0"}, {"host", "0a1b"}}};
}

Outcome full_device_outcome() {
  const OutOfMemory full{.requested = Bytes{4096},
                         .allocated = Bytes{1'000'000},
                         .capacity = Bytes{1'002'000},
                         .reserved = Bytes{1'001'000},
                         .account = Account::logits,
                         .phase = Phase::loss,
                         .rank = 1};
  return {.value = full, .environment = {{"torch", "2.11.0"}}};
}

Outcome failed_outcome(OutcomeKind kind) {
  const Failure failure{.kind = kind,
                        .detail = "rank 1 was ended by SIGKILL",
                        .log_tail = "step 1\nstep 2\n",
                        .rank = 1};
  return {.value = failure, .environment = {{"torch", "2.11.0"}}};
}

Trial sample_trial() {
  return {.number = 17,
          .problem_hash = "fedcba9876543210",
          .candidate = sample_candidate(),
          .scope = {.kind = ScopeKind::truncated, .warmup = 2, .steps = 5},
          .estimate = sample_estimate(true),
          .why = "highest expected improvement",
          .outcome = measured_outcome(true),
          .started_unix_s = 1.75e9,
          .finished_unix_s = 1.75e9 + 0.125};
}

}  // namespace planwright::testing
