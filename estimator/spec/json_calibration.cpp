#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

template <>
struct Fields<Coefficient> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &Coefficient::name},
      Field{"transform", &Coefficient::transform},
      Field{"prior_mean", &Coefficient::prior_mean},
      Field{"prior_sd", &Coefficient::prior_sd},
      Field{"value", &Coefficient::value},
      Field{"sd", &Coefficient::sd},
      Field{"source", &Coefficient::source, kAny, Hashed::no},  // words about the numbers above
  };
};

template <>
struct Fields<Calibration> {
  static constexpr auto kFields = std::tuple{
      Field{"coefficients", &Calibration::coefficients},
      Field{"covariance", &Calibration::covariance},
      Field{"time_noise", &Calibration::time_noise},
      Field{"memory_noise", &Calibration::memory_noise},
      Field{"reserved_noise", &Calibration::reserved_noise},
      Field{"observations", &Calibration::observations, kNatural},
  };
};

template <>
struct Fields<HostRates> {
  static constexpr auto kFields = std::tuple{
      Field{"world", &HostRates::world, kPositive},
      Field{"threads", &HostRates::threads, kPositive},
      Field{"matmul_fp32_flops_per_s", &HostRates::matmul_fp32_flops_per_s},
      Field{"matmul_bf16_flops_per_s", &HostRates::matmul_bf16_flops_per_s},
      Field{"copy_bytes_per_s", &HostRates::copy_bytes_per_s},
      Field{"kernel_overhead_s", &HostRates::kernel_overhead_s},
      Field{"all_reduce_latency_s", &HostRates::all_reduce_latency_s},
      Field{"all_reduce_bytes_per_s", &HostRates::all_reduce_bytes_per_s},
      Field{"broadcast_bytes_per_s", &HostRates::broadcast_bytes_per_s},
      Field{"gemm_scratch_bytes", &HostRates::gemm_scratch_bytes, kNatural},
  };
};

Json encode(const Calibration& value, Form form) { return encode<Calibration>(value, form); }
Json encode(const HostRates& value, Form form) { return encode<HostRates>(value, form); }

void decode(const Json& json, const Place& place, Calibration& into) {
  decode<Calibration>(json, place, into);
  const std::size_t n = into.coefficients.size();
  if (!into.covariance.empty() && into.covariance.size() != n * n) {
    refuse(place.at("covariance"), into.covariance.size(),
           "must have n x n numbers for the " + std::to_string(n) + " coefficients",
           std::to_string(n * n));
  }
}
void decode(const Json& json, const Place& place, HostRates& into) {
  decode<HostRates>(json, place, into);
}

}  // namespace planwright::json_io
