#include "probes/worker/benchmark_job.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <array>
#include <vector>

#include "probes/worker/clock.h"
#include "probes/worker/device.h"
#include "probes/worker/device_memory.h"

namespace planwright::worker {
namespace {

constexpr int kRepeats = 5;
constexpr std::int64_t kMatrix = 1024;  ///< three fp32 matrices: 12 MiB
constexpr std::int64_t kLargeBytes = 16 << 20;
constexpr int kSmallOperations = 100;
constexpr int kSmallCollectives = 10;

/// Median seconds of a call, all ranks beginning each together.
template <class Call>
double median_s(const Rank& rank, const Call& call) {
  call();  // first-use costs are no rates
  std::array<double, kRepeats> times{};
  for (double& time : times) {
    synchronize(rank.device);
    rank.collectives.all().barrier();
    const double begin = monotonic_s();
    call();
    synchronize(rank.device);
    time = monotonic_s() - begin;
  }
  rank.progress.alive();
  std::sort(times.begin(), times.end());
  return times[kRepeats / 2];
}

double matmul_rate(const Rank& rank, at::ScalarType type) {
  const auto options = at::TensorOptions(type).device(rank.device);
  const at::Tensor a = at::ones({kMatrix, kMatrix}, options), b = at::ones_like(a);
  at::Tensor out = at::empty_like(a);
  const double seconds = median_s(rank, [&] {
    const WorkspaceScope scope;
    at::mm_out(out, a, b);
  });
  return 2.0 * static_cast<double>(kMatrix * kMatrix * kMatrix) / seconds;
}

double copy_rate(const Rank& rank) {
  const at::Tensor from = at::ones({kLargeBytes}, at::TensorOptions(at::kByte).device(rank.device));
  const at::Tensor to = at::empty_like(from);
  return 2.0 * kLargeBytes / median_s(rank, [&] { to.copy_(from); });
}

double kernel_overhead(const Rank& rank) {
  const at::Tensor small = at::ones({1}, at::TensorOptions(at::kFloat).device(rank.device));
  return median_s(rank,
                  [&] {
                    for (int i = 0; i < kSmallOperations; ++i) small.add_(small);
                  }) /
         kSmallOperations;
}

void measure_collectives(const Rank& rank, HostRates& rates) {
  if (rank.collectives.world() == 1) return;
  const auto options = at::TensorOptions(at::kFloat).device(rank.device);
  const at::Tensor one = at::ones({1}, options);
  const at::Tensor large = at::ones({kLargeBytes / 4}, options);
  rates.all_reduce_latency_s = median_s(rank,
                                        [&] {
                                          for (int i = 0; i < kSmallCollectives; ++i) {
                                            rank.collectives.all().sum(one);
                                          }
                                        }) /
                               kSmallCollectives;
  rates.all_reduce_bytes_per_s =
      kLargeBytes / median_s(rank, [&] { rank.collectives.all().sum(large); });
  rates.broadcast_bytes_per_s =
      kLargeBytes / median_s(rank, [&] { rank.collectives.all().broadcast(large, 0); });
}

}  // namespace

HostRates run_benchmark_job(const probes::ProbeRequest& request, const Rank& rank) {
  HostRates rates;
  rates.world = request.world;
  rates.threads = request.threads;
  rates.matmul_fp32_flops_per_s = matmul_rate(rank, at::kFloat);
  reset_memory_peaks();
  rates.matmul_bf16_flops_per_s = matmul_rate(rank, at::kBFloat16);
  rates.gemm_scratch_bytes = memory_peaks().allocated[Account::workspace].value;
  rates.copy_bytes_per_s = copy_rate(rank);
  rates.kernel_overhead_s = kernel_overhead(rank);
  measure_collectives(rank, rates);
  return rates;
}

}  // namespace planwright::worker
