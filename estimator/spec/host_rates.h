#pragma once

#include <cstdint>

namespace planwright {

/// Rates of this machine under `world` ranks at once, medians of repeats.
struct HostRates {
  int world = 1;
  int threads = 1;
  double matmul_fp32_flops_per_s = 0;  ///< per rank, a square product that does not fit the caches
  double matmul_bf16_flops_per_s = 0;
  double copy_bytes_per_s = 0;        ///< read + written, per rank
  double kernel_overhead_s = 0;       ///< of one small tensor operation
  double all_reduce_latency_s = 0;    ///< of a 4-byte all-reduce; 0 for one rank
  double all_reduce_bytes_per_s = 0;  ///< algorithm bandwidth: bytes / time, of a large one
  double broadcast_bytes_per_s = 0;
  std::int64_t gemm_scratch_bytes = 0;  ///< largest scratch of one bf16 product that was seen
  bool operator==(const HostRates&) const = default;
};

}  // namespace planwright
