#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/rules.h"
#include "estimator/spec/target_traits.h"
#include "search/refusal.h"

namespace planwright::search {

/// The values that a person restricts an axis to. An empty list leaves the axis free.
struct SpaceRequest {
  std::vector<int> tp, pp, vpp, cp, ep, etp, dp, zero, hsdp, micro_batch;
  std::vector<bool> sp;
  std::vector<Schedule> schedule;
  std::vector<Recompute> recompute;
  std::vector<Offload> offload;
  std::vector<AttentionKernel> attention;
  std::vector<LossKernel> loss;
  std::map<std::string, std::vector<std::string>> knobs;  ///< by the knob's name
  bool operator==(const SpaceRequest&) const = default;
};

/// Every candidate of a request: the legal ones in canonical order, the others by the first rule
/// they break. `counted` is the sum of both.
struct Space {
  std::vector<Candidate> legal;
  std::map<std::string, std::int64_t> dropped;
  std::map<std::string, BrokenRule> examples;  ///< what the first one dropped by a rule breaks
  std::int64_t counted = 0;
  Refusal refusal{};  ///< of a space without a legal candidate
  /// Where the global batch is not fixed: sequences of a step of each legal candidate, as a share
  /// of the longest step's. Empty where all steps are as long.
  std::vector<double> shares{};

  /// Seconds in which candidate `i`, whose own step takes `step_s`, trains on as many sequences as
  /// the longest step has: what candidates are compared by.
  double comparable(std::size_t i, double step_s) const {
    return shares.empty() ? step_s : step_s / shares[i];
  }
};

/// All combinations of the axes' values, but for those that are the same: where dp is 1, zero takes
/// the first of its values only. The canonical order is that of nested loops over tp, pp,
/// vpp, cp, ep, etp, dp, zero, hsdp, micro_batch, sp, schedule, recompute, offload, attention, loss
/// and the target's knobs, the last one turning fastest; numbers ascend, words follow the order of
/// their vocabulary, whatever order the request has them in.
///
/// A free axis takes the values that the target supports, with these exceptions: tp, pp and cp
/// divide the devices; vpp is 1 where pp is, and no more than a stage has blocks; ep and etp are 1
/// without experts, and else divide the ranks of a stage; hsdp divides dp and is less, and is 1
/// where zero is 0; sp off where tp is 1, schedule 1f1b where pp is 1; dp is devices / (tp pp cp);
/// micro_batch is every divisor of global_batch / dp (1 where that is not whole, so that the rule
/// it breaks counts it once; powers of two up to 256 where the global batch is not fixed); a knob
/// is at its default. An InputError for a knob, or a knob's value, that the target does not have.
Space enumerate(const Problem& problem, const TargetTraits& traits, const SpaceRequest& request);

}  // namespace planwright::search
