#include "estimator/coefficients.h"

#include <cmath>
#include <stdexcept>
#include <string>

#include "estimator/csv.h"
#include "estimator/embedded.h"
#include "estimator/spec/error.h"

namespace planwright::estimator {
namespace {

const Csv& prior_table() {
  static const Csv kTable(embedded_text("priors.csv"), "priors.csv");
  return kTable;
}

std::optional<double> positive(double value) {
  return value > 0 ? std::optional(value) : std::nullopt;
}

/// Hops of the longest chain in a ring all-reduce. Source: see price_terms.h.
double ring_hops(int ranks) { return 2.0 * (ranks - 1); }

/// Half-precision products are timed as such; a double has half the lanes of a float.
double host_matrix_rate(const HostRates& rates, DType compute) {
  if (bytes_of(compute) < bytes_of(DType::fp32)) return rates.matmul_bf16_flops_per_s;
  return rates.matmul_fp32_flops_per_s / (compute == DType::fp64 ? 2 : 1);
}

/// The rate or size that the host's micro-benchmark measured, in the price function's terms.
std::optional<double> host_value(Term term, const Problem& problem, const HostRates& rates) {
  const bool grouped = rates.world > 1;
  switch (term) {
    case Term::matrix_rate:
      return positive(host_matrix_rate(rates, problem.workload.recipe.compute));
    case Term::memory_bandwidth:
    case Term::optimizer_rate:
      return positive(rates.copy_bytes_per_s);
    case Term::kernel_overhead:
      return positive(rates.kernel_overhead_s);
    case Term::link_latency:
      return grouped ? positive(rates.all_reduce_latency_s / ring_hops(rates.world)) : std::nullopt;
    case Term::link_bandwidth:  // bytes / time of a ring is n / (2 (n - 1)) of the link's
      return grouped ? positive(rates.all_reduce_bytes_per_s * ring_hops(rates.world) / rates.world)
                     : std::nullopt;
    case Term::broadcast_bandwidth:
      return grouped ? positive(rates.broadcast_bytes_per_s * std::ceil(std::log2(rates.world)))
                     : std::nullopt;
    case Term::gemm_scratch:
      return positive(static_cast<double>(rates.gemm_scratch_bytes));
    default:
      return std::nullopt;
  }
}

/// The data sheet's peak for products of this type; a type without units of its own runs at fp32's.
std::optional<FlopsPerSecond> sheet_peak(const DeviceSpec& device, DType compute) {
  switch (compute) {
    case DType::fp64:
      return device.fp64;
    case DType::bf16:
      return device.bf16 ? device.bf16 : device.fp32;
    case DType::fp16:
      return device.fp16 ? device.fp16 : device.fp32;
    case DType::fp8:
      return device.fp8;
    case DType::fp32:
      return device.fp32;
  }
  return std::nullopt;
}

std::optional<double> sheet_value(Term term, const Problem& problem) {
  const ClusterSpec& cluster = problem.cluster;
  switch (term) {
    case Term::matrix_rate: {
      const auto peak = sheet_peak(cluster.device, problem.workload.recipe.compute);
      return peak ? positive(peak->value) : std::nullopt;
    }
    case Term::memory_bandwidth:
    case Term::optimizer_rate:
      return positive(cluster.device.memory_bandwidth.value);
    case Term::host_link:
      return cluster.pcie ? positive(cluster.pcie->value) : std::nullopt;
    case Term::link_latency:
      return cluster.links.empty() ? std::nullopt : positive(cluster.links.back().latency.value);
    case Term::link_bandwidth:
    case Term::broadcast_bandwidth:
      return cluster.links.empty() ? std::nullopt : positive(cluster.links.back().bandwidth.value);
    default:
      return std::nullopt;
  }
}

/// What a row's factor multiplies; absent if this problem has no such thing.
std::optional<double> basis_value(const std::string& basis, Term term, const Problem& problem,
                                  const Values<double>& earlier,
                                  const std::optional<HostRates>& rates) {
  if (basis == "fixed") return 1.0;
  if (basis == "model") return problem.model.stand_in ? std::nullopt : std::optional(1.0);
  if (basis == "per_thread") return static_cast<double>(problem.cluster.threads_per_rank);
  if (basis == "sheet") return sheet_value(term, problem);
  if (basis == "host") return rates ? host_value(term, problem, *rates) : std::nullopt;
  // 2 k n m flops at `rate` against k n weights of e bytes at `bandwidth`: equal at
  // m = e rate / (2 bandwidth).
  if (basis == "knee") {
    const auto e = static_cast<double>(bytes_of(problem.workload.recipe.compute));
    return e * earlier[Term::matrix_rate] / (2 * earlier[Term::memory_bandwidth]);
  }
  throw std::logic_error("priors.csv: unknown basis " + basis);
}

bool is_size(Term term) { return term >= Term::gemm_scratch && term != Term::stuck; }

}  // namespace

bool applies(Term term, const Problem& problem, const TargetTraits& traits) {
  const DeviceKind kind = problem.cluster.device.kind;
  const bool grouped = problem.cluster.devices() > 1;
  const DType compute = problem.workload.recipe.compute;
  switch (term) {
    case Term::link_latency:
    case Term::link_bandwidth:
    case Term::overlap:
      return grouped;
    case Term::broadcast_bandwidth:
      return grouped && traits.transport(kind) == Transport::gloo;
    case Term::gemm_scratch:
      return kind == DeviceKind::cuda || bytes_of(compute) < bytes_of(accumulation_type(compute));
    case Term::work_factor:
      return traits.stand_in_kernels;
    case Term::activation_factor:
      return traits.stand_in_kernels && !is_known_framework(traits.kernels(kind));
    case Term::state_factor:
      return problem.model.stand_in;
    case Term::host_link:
    case Term::host_optimizer_rate:
    case Term::host_process:
      return kind == DeviceKind::cuda && traits.axes.offload.size() > 1;
    case Term::communicator:
      return kind == DeviceKind::cuda && grouped;
    case Term::device_context:
    case Term::fragmentation:
    case Term::stuck:
      return kind == DeviceKind::cuda;
    default:
      return true;
  }
}

double absent_value(Term term) { return is_size(term) ? 0 : 1; }

Values<double> values_of(const Calibration& calibration) {
  Values<double> values{};
  for (std::size_t i = 0; i < kTermCount; ++i) values.each[i] = absent_value(static_cast<Term>(i));
  for (const Coefficient& coefficient : calibration.coefficients) {
    if (const auto term = from_word<Term>(coefficient.name)) {
      values[*term] = natural(coefficient.transform, coefficient.value);
    }
  }
  return values;
}

Coefficient prior_coefficient(Term term, const Problem& problem, const Values<double>& earlier,
                              const std::optional<HostRates>& rates) {
  const Csv& table = prior_table();
  const std::string_view device = word(problem.cluster.device.kind);
  for (std::size_t row = 0; row < table.rows(); ++row) {
    const std::string& kind = table.cell(row, "device");
    if (table.cell(row, "coefficient") != word(term) || (kind != device && kind != "any")) continue;
    const auto basis = basis_value(table.cell(row, "basis"), term, problem, earlier, rates);
    if (!basis) continue;
    const double value = table.number(row, "factor", 1) * *basis;
    const bool is_share = term == Term::overlap || term == Term::stuck;
    const Transform transform = is_share ? Transform::logit : Transform::log;
    const double mean =
        transform == Transform::log ? std::log(value) : std::log(value / (1 - value));
    const double sd = table.number(row, "sd", 1);
    return {std::string(word(term)), transform, mean, sd, mean, sd, table.cell(row, "source")};
  }
  throw InputError({"", "device", problem.cluster.device.name,
                    "has no known " + std::string(word(term)) + " for " +
                        std::string(word(problem.workload.recipe.compute)) +
                        ", so that its time cannot be estimated",
                    ""});
}

}  // namespace planwright::estimator
