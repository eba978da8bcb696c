#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/coefficients.h"
#include "estimator/quantities.h"

/// The price function, over any scalar that adds, multiplies, divides and compares: doubles to
/// rank, ceres::Jet to learn and to spread uncertainty. Nothing else knows a formula of time.
namespace planwright::estimator {

template <class T>
struct TimeTerms {
  T compute, recompute, communication, bubble, optimizer, offload;
  T total() const { return compute + recompute + communication + bubble + optimizer + offload; }
};

/// Products: flops / rate, and once more the time in which a micro-batch of `half_tokens` would do
/// its flops, because the weights are read whatever its size: 2 k n m / rate · (1 + half / m). Of
/// weights that one token does not go through only the reading counts: 2 k n half / rate.
/// Memory-bound kernels: bytes / bandwidth. Every kernel: its overhead. All of it times
/// `work_factor` where the kernels are somebody else's.
/// Source: Williams, Waterman, Patterson (2009), the roofline, with its two ceilings added and not
/// the larger taken: kernels follow each other and do not overlap.
template <class T>
T work_time(const Work& work, double tokens, const Values<T>& v) {
  const double in_reading = work.matrix_flops / tokens + 2 * work.other_weights;
  const T ours = (work.matrix_flops + work.attention_flops + in_reading * v[Term::half_tokens]) /
                     v[Term::matrix_rate] +
                 work.bytes / v[Term::memory_bandwidth] + work.launches * v[Term::kernel_overhead];
  return ours * v[Term::work_factor];
}

/// A ring of n ranks moves a buffer of S bytes in n - 1 steps of S / n each, once to reduce and
/// once to gather: (n - 1) (alpha + S / (n beta)) for either, twice that for an all-reduce.
/// A broadcast goes down a binomial tree: ceil(log2 n) (alpha + S / beta). What goes from one rank
/// to another: alpha + S / beta; where each sends another part to every other, n - 1 of them one
/// after the other, (n - 1) (alpha + S / (n beta)). Source: Thakur, Rabenseifner, Gropp (2005),
/// sections 3 and 4; gloo's all-reduce is such a ring (gloo/allreduce.cc), its broadcast such a
/// tree (gloo/broadcast.cc). Over several links alpha and beta are of the way (estimator/parties).
/// Of a model that is not known, the bytes are its stand-in's, times `state_factor`.
template <class T>
T message_time(const Messages& m, const ClusterSpec& cluster, const Values<T>& v) {
  const Link& link = cluster.links.at(static_cast<std::size_t>(m.link));
  const Link& outermost = cluster.links.back();  // the link that the coefficients are about
  const T alpha = v[Term::link_latency] * (link.latency / outermost.latency);
  const double width = m.lanes * (link.bandwidth / outermost.bandwidth);
  const T bytes = m.bytes * v[Term::state_factor];
  if (m.collective == Collective::broadcast) {
    const double rounds = std::ceil(std::log2(m.ranks));
    return rounds * (m.count * alpha + bytes / (v[Term::broadcast_bandwidth] * width));
  }
  if (m.collective == Collective::send) {
    return m.count * alpha + bytes / (width * v[Term::link_bandwidth]);
  }
  const double passes = m.collective == Collective::all_reduce ? 2 : 1;
  const double share = (m.ranks - 1.0) / m.ranks;
  return passes * (m.count * m.hops * alpha + share * bytes / (width * v[Term::link_bandwidth]));
}

template <class T>
T messages_time(const std::vector<Messages>& all, const ClusterSpec& cluster, const Values<T>& v) {
  T time = v[Term::matrix_rate] * 0.0;
  for (const Messages& each : all) time += message_time(each, cluster, v);
  return time;
}

/// What is left to wait for of `communication` that is carried out beside `work`: of the time that
/// both take, the coefficient `overlap` is saved.
template <class T>
T exposed(const T& communication, const T& work, const Values<T>& v) {
  return communication - v[Term::overlap] * (communication < work ? communication : work);
}

/// One stage's time, bubble apart: `micro` of one micro-batch, the rest once per step.
template <class T>
struct StageTime {
  T compute, recompute, communication, offload;  ///< of one micro-batch
  T step_compute, step_communication, optimizer, step_offload;
  T postponed;  ///< of `compute`: see StageQuantities

  T micro() const { return compute + recompute + communication + offload; }
  /// What the other stages wait for it before and after their work.
  T waited_for() const {
    const T all = micro(), filled = 2.0 * postponed;
    return filled < all ? all - filled : all * 0.0;
  }
  T step() const { return step_compute + step_communication + optimizer + step_offload; }
};

/// Over PCIe beside the passes or between them, and once per step by itself; then the host steps.
template <class T>
void add_offload_time(const OffloadQuantities& o, const Values<T>& v, StageTime<T>& time) {
  const T moved = o.moved * v[Term::state_factor] / v[Term::host_link];
  time.offload = exposed(moved, T(time.compute + time.recompute), v) +
                 o.waited * v[Term::state_factor] / v[Term::host_link];
  time.step_offload = o.moved_each_step * v[Term::state_factor] / v[Term::host_link];
  time.optimizer += o.optimizer_bytes * v[Term::state_factor] / v[Term::host_optimizer_rate];
}

template <class T>
StageTime<T> stage_time(const StageQuantities& s, double tokens, const ClusterSpec& cluster,
                        const Values<T>& v) {
  const T forward = work_time(s.forward, tokens, v);
  const T backward = work_time(s.backward, tokens, v) + work_time(s.head, tokens, v);
  StageTime<T> time{forward + backward,
                    work_time(s.recompute, tokens, v),
                    messages_time(s.waited, cluster, v),
                    v[Term::matrix_rate] * 0.0,
                    work_time(s.step, tokens, v) * v[Term::state_factor],
                    messages_time(s.messages, cluster, v),
                    s.optimizer_bytes * v[Term::state_factor] / v[Term::optimizer_rate] +
                        s.optimizer_launches * v[Term::kernel_overhead],
                    v[Term::matrix_rate] * 0.0,
                    work_time(s.postponed, tokens, v)};
  if (s.offload.any()) add_offload_time(s.offload, v, time);
  if (!s.beside.empty()) {
    time.communication +=
        exposed(messages_time(s.beside, cluster, v), T(time.compute + time.recompute), v);
  }
  if (!s.beside_attention.empty()) {
    const double flops =
        s.forward.attention_flops + s.backward.attention_flops + s.recompute.attention_flops;
    const T attention = work_time(Work{.attention_flops = flops}, tokens, v);
    time.communication += exposed(messages_time(s.beside_attention, cluster, v), attention, v);
  }
  if (!s.beside_last_backward.empty()) {
    time.step_communication +=
        exposed(messages_time(s.beside_last_backward, cluster, v), T(backward + time.recompute), v);
  }
  return time;
}

/// A pipeline of p stages and m micro-batches takes as long as its slowest stage's m micro-batches,
/// and before and after them the other stages' one each: m t + sum of the others'. GPipe and 1F1B
/// alike; of stages with several chunks each, one chunk's. Source: Narayanan et al. (2021),
/// arXiv:2104.04473, section 2.2. Where the weights' backward is apart and put off, it fills its
/// own time of both: forward + backward of input - backward of weights. Source: Qi et al. (2023),
/// arXiv:2401.10241, section 2.1, ZB-H1.
template <class T>
TimeTerms<T> time_terms(const Quantities& q, const ClusterSpec& cluster, const Values<T>& v) {
  const double m = q.micro_batches;
  std::optional<StageTime<T>> slowest;
  T all_waited_for = v[Term::matrix_rate] * 0.0;
  for (const StageQuantities& stage : q.stages) {
    const StageTime<T> time = stage_time(stage, q.tokens, cluster, v);
    all_waited_for += time.waited_for();
    if (!slowest || m * time.micro() + time.step() > m * slowest->micro() + slowest->step()) {
      slowest = time;
    }
  }
  return {m * slowest->compute + slowest->step_compute,
          m * slowest->recompute,
          m * slowest->communication + slowest->step_communication,
          (all_waited_for - slowest->waited_for()) / q.chunks,
          slowest->optimizer,
          m * slowest->offload + slowest->step_offload};
}

/// The largest instant of a step.
template <class T>
struct PeakTerms {
  T allocated;
  std::size_t stage = 0;
  const PhaseBytes* phase = nullptr;
  bool product = false;  ///< it is the phase's `product` instant, with the scratch in `allocated`
};

/// Whose bytes the two factors of somebody else's kernels and model multiply.
constexpr std::array kMadeByKernels{Account::activations, Account::logits};
constexpr std::array kMadeOfWeights{Account::parameters, Account::gradients, Account::optimizer,
                                    Account::communication};

template <std::size_t N>
Bytes sum_of(const Ledger& at, const std::array<Account, N>& accounts) {
  Bytes sum;
  for (const Account account : accounts) sum += at[account];
  return sum;
}

/// All that is inside the allocator.
template <class T>
T allocated_bytes(const Ledger& at, const Values<T>& v) {
  const Bytes made = sum_of(at, kMadeByKernels), held = sum_of(at, kMadeOfWeights);
  const Bytes rest = at.allocated() - made - held;
  return static_cast<double>(made.value) * v[Term::activation_factor] +
         static_cast<double>(held.value) * v[Term::state_factor] + static_cast<double>(rest.value);
}

/// The largest instant of one phase; with `in_product`, of its products only, if it has any.
inline PeakTerms<double> phase_peak(const PhaseBytes& phase, const Values<double>& v,
                                    bool in_product) {
  const double known = allocated_bytes(phase.kernels, v);
  if (!phase.product) return {known, 0, &phase, false};
  const double product = v[Term::gemm_scratch] + allocated_bytes(*phase.product, v);
  if (in_product || product > known) return {product, 0, &phase, true};
  return {known, 0, &phase, false};
}

inline PeakTerms<double> stage_peak(const StageQuantities& stage, const Values<double>& v) {
  PeakTerms<double> peak = phase_peak(stage.phases.front(), v, false);
  for (const PhaseBytes& phase : stage.phases) {
    const PeakTerms<double> each = phase_peak(phase, v, false);
    if (each.allocated > peak.allocated) peak = each;
  }
  return peak;
}

/// Of the worst stage, the first of equals.
inline PeakTerms<double> peak_terms(const Quantities& q, const Values<double>& v) {
  PeakTerms<double> peak = stage_peak(q.stages.front(), v);
  for (std::size_t i = 1; i < q.stages.size(); ++i) {
    PeakTerms<double> each = stage_peak(q.stages[i], v);
    each.stage = i;
    if (each.allocated > peak.allocated) peak = each;
  }
  return peak;
}

/// The same instant over another scalar. Which is the largest is found over doubles: of a maximum,
/// the derivatives are those of what is the largest.
template <class T>
PeakTerms<T> at_instant(const PeakTerms<double>& at, const Values<T>& v) {
  const Ledger& ledger = at.product ? *at.phase->product : at.phase->kernels;
  T allocated = allocated_bytes(ledger, v);
  if (at.product) allocated = v[Term::gemm_scratch] + allocated;
  return {allocated, at.stage, at.phase, at.product};
}

/// Parameters and optimizer states of the first stage's fullest rank, between steps.
template <class T>
T state_bytes(const Quantities& q, const Values<T>& v) {
  const Ledger& loaded = q.stages.front().loaded;
  const Bytes states = loaded[Account::parameters] + loaded[Account::optimizer];
  return static_cast<double>(states.value) * v[Term::state_factor];
}

/// What a stage's allocator has taken for tensors of one phase that those of another do not fit
/// into: where known segments stay (Account::fragmentation of a phase) the largest phase with them
/// beyond `allocated`, the largest without.
template <class T>
T retained_bytes(const StageQuantities& stage, const T& allocated, const Values<T>& v) {
  const Values<double> plain = plain_values(v);
  const auto segments = [](const PhaseBytes& phase) {
    return static_cast<double>(phase.kernels[Account::fragmentation].value);
  };
  std::optional<PeakTerms<double>> most;
  double reserved = plain_value(allocated);
  for (const PhaseBytes& phase : stage.phases) {
    const PeakTerms<double> peak = phase_peak(phase, plain, false);
    if (peak.allocated + segments(phase) <= reserved) continue;
    reserved = peak.allocated + segments(phase);
    most = peak;
  }
  if (!most) return allocated * 0.0;
  return at_instant(*most, v).allocated + segments(*most->phase) - allocated;
}

/// What an accelerator's allocator takes beyond what it hands out: what is known to stay, and a
/// share of all that comes and goes.
template <class T>
T fragmentation_bytes(const StageQuantities& stage, const T& allocated, const Values<T>& v) {
  const auto preallocated = static_cast<double>(stage.preallocated.value);
  return (allocated - preallocated) * v[Term::fragmentation] + retained_bytes(stage, allocated, v);
}

/// What lives beside the allocator.
template <class T>
T context_bytes(double communicators, const Values<T>& v) {
  return v[Term::device_context] + communicators * v[Term::communicator];
}

/// Of a node's memory: what its ranks keep there, and their processes.
template <class T>
T host_bytes_needed(const Quantities& q, int ranks, const Values<T>& v) {
  return static_cast<double>(q.host.value) * v[Term::state_factor] +
         static_cast<double>(ranks) * v[Term::host_process];
}

/// All that an accelerator must hold: one that is full gets back what its allocator keeps in blocks
/// that nothing lives in. Source: pytorch c10/cuda/CUDACachingAllocator.cpp, malloc, which frees
/// cached blocks that are not split and tries again.
template <class T>
T device_needed(const StageQuantities& stage, const T& allocated, double communicators,
                const Values<T>& v) {
  return allocated + fragmentation_bytes(stage, allocated, v) * v[Term::stuck] +
         context_bytes(communicators, v);
}

/// All that it holds: what its allocator would keep if there were room for it.
template <class T>
T device_bytes(const StageQuantities& stage, const T& allocated, double communicators,
               Bytes capacity, const Values<T>& v) {
  T wanted = allocated + fragmentation_bytes(stage, allocated, v) + context_bytes(communicators, v);
  const auto room = static_cast<double>(capacity.value);
  if (wanted <= room) return wanted;
  const T needed = device_needed(stage, allocated, communicators, v);
  return needed < room ? T(needed * 0.0 + room) : needed;
}

}  // namespace planwright::estimator
