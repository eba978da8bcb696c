#pragma once

#include <cmath>

#include "estimator/coefficients.h"
#include "estimator/quantities.h"

/// The price function, over any scalar that adds, multiplies, divides and compares: doubles to
/// rank, ceres::Jet to learn and to spread uncertainty. Nothing else knows a formula of time.
namespace planwright::estimator {

template <class T>
struct TimeTerms {
  T compute, recompute, communication, optimizer;
  T total() const { return compute + recompute + communication + optimizer; }
};

/// Products: flops / rate, and once more the time in which a micro-batch of `half_tokens` would do
/// its flops, because the weights are read whatever its size: 2 k n m / rate · (1 + half / m).
/// Memory-bound kernels: bytes / bandwidth. Every kernel: its overhead.
/// Source: Williams, Waterman, Patterson (2009), the roofline, with its two ceilings added and not
/// the larger taken: kernels follow each other and do not overlap.
template <class T>
T work_time(const Work& work, double tokens, const Values<T>& v) {
  return work.matrix_flops / v[Term::matrix_rate] * (1.0 + v[Term::half_tokens] / tokens) +
         work.attention_flops / v[Term::matrix_rate] + work.bytes / v[Term::memory_bandwidth] +
         work.launches * v[Term::kernel_overhead];
}

/// A ring of n ranks moves a buffer of S bytes in n - 1 steps of S / n each, once to reduce and
/// once to gather: (n - 1) (alpha + S / (n beta)) for either, twice that for an all-reduce.
/// A broadcast goes down a binomial tree: ceil(log2 n) (alpha + S / beta).
/// Source: Thakur, Rabenseifner, Gropp (2005), sections 3 and 4; gloo's all-reduce is such a ring
/// (gloo/allreduce.cc), its broadcast such a tree (gloo/broadcast.cc).
template <class T>
T message_time(const Messages& m, const ClusterSpec& cluster, const Values<T>& v) {
  const Link& link = cluster.links.at(static_cast<std::size_t>(m.link));
  const Link& outermost = cluster.links.back();  // the link that the coefficients are about
  const T alpha = v[Term::link_latency] * (link.latency / outermost.latency);
  const double width = link.bandwidth / outermost.bandwidth;
  if (m.collective == Collective::broadcast) {
    const double rounds = std::ceil(std::log2(m.ranks));
    return rounds * (m.count * alpha + m.bytes / (v[Term::broadcast_bandwidth] * width));
  }
  const double passes = m.collective == Collective::all_reduce ? 2 : 1;
  return passes * (m.ranks - 1.0) *
         (m.count * alpha +
          m.bytes / (static_cast<double>(m.ranks) * width * v[Term::link_bandwidth]));
}

template <class T>
TimeTerms<T> time_terms(const Quantities& q, const ClusterSpec& cluster, const Values<T>& v) {
  const T zero = v[Term::matrix_rate] * 0.0;
  TimeTerms<T> time{zero, zero, zero, zero};
  for (const Work* work : {&q.forward, &q.backward, &q.head}) {
    time.compute += q.micro_batches * work_time(*work, q.tokens, v);
  }
  time.compute += work_time(q.step, q.tokens, v);
  time.recompute = q.micro_batches * work_time(q.recompute, q.tokens, v);
  for (const Messages& messages : q.messages) {
    time.communication += message_time(messages, cluster, v);
  }
  time.optimizer =
      q.optimizer_bytes / v[Term::optimizer_rate] + q.optimizer_launches * v[Term::kernel_overhead];
  return time;
}

/// The largest instant of a step.
template <class T>
struct PeakTerms {
  T allocated;
  const PhaseBytes* phase = nullptr;
  bool product = false;  ///< it is the phase's `product` instant, with the scratch in `allocated`
};

/// The largest instant of one phase; with `in_product`, of its products only, if it has any.
template <class T>
PeakTerms<T> phase_peak(const PhaseBytes& phase, const Values<T>& v, bool in_product) {
  const T zero = v[Term::gemm_scratch] * 0.0;
  const T known = zero + static_cast<double>(phase.kernels.allocated().value);
  if (!phase.product) return {known, &phase, false};
  const T product = v[Term::gemm_scratch] + static_cast<double>(phase.product->allocated().value);
  if (in_product || product > known) return {product, &phase, true};
  return {known, &phase, false};
}

template <class T>
PeakTerms<T> peak_terms(const Quantities& q, const Values<T>& v) {
  PeakTerms<T> peak = phase_peak(q.phases.front(), v, false);
  for (const PhaseBytes& phase : q.phases) {
    const PeakTerms<T> each = phase_peak(phase, v, false);
    if (each.allocated > peak.allocated) peak = each;
  }
  return peak;
}

/// What an accelerator's allocator takes to hand out `allocated`.
template <class T>
T reserved_bytes(const T& allocated, const Values<T>& v) {
  return allocated * (1.0 + v[Term::fragmentation]);
}

/// All that an accelerator must hold: what the allocator takes, and what lives beside it.
template <class T>
T device_bytes(const T& allocated, bool grouped, const Values<T>& v) {
  return reserved_bytes(allocated, v) + v[Term::device_context] +
         (grouped ? 1.0 : 0.0) * v[Term::communicator];
}

}  // namespace planwright::estimator
