#include "estimator/smallest_change.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/spec/rules.h"

namespace planwright::estimator {
namespace {

/// The candidate's own value first, then those that need less memory.
std::vector<int> zero_stages(const TargetTraits& traits, const Candidate& candidate) {
  std::vector<int> stages{candidate.zero};
  for (const int zero : traits.axes.zero) {
    if (zero > candidate.zero) stages.push_back(zero);
  }
  std::sort(stages.begin(), stages.end());
  return stages;
}

/// Those of which a rank's sequences are whole multiples, as its own is.
std::vector<int> micro_batches(const Problem& problem, const Candidate& candidate) {
  const std::int64_t sequences = problem.workload.global_batch / candidate.dp;
  std::vector<int> sizes;
  for (int size = candidate.micro_batch; size >= 1; --size) {
    if (size == candidate.micro_batch || sequences % size == 0) sizes.push_back(size);
  }
  return sizes;
}

/// Its own, then ranks that share the experts out further.
std::vector<int> expert_ranks(const Problem& problem, const Candidate& candidate) {
  std::vector<int> ranks{candidate.ep};
  if (!problem.model.has_experts()) return ranks;
  const int most = candidate.ep * candidate.expert_data_ranks();
  for (int more = candidate.ep + 1; more <= most; ++more) {
    if (most % more == 0) ranks.push_back(more);
  }
  return ranks;
}

std::vector<Recompute> recomputes(const TargetTraits& traits, const Candidate& candidate) {
  std::vector<Recompute> kinds{candidate.recompute};
  for (const Recompute& recompute : traits.axes.recompute) {
    if (recompute.kind == RecomputeKind::full && !(recompute == candidate.recompute)) {
      kinds.push_back(recompute);
    }
  }
  return kinds;
}

/// Its own, then those that hold less of the logits.
std::vector<LossKernel> losses(const TargetTraits& traits, const Candidate& candidate) {
  std::vector<LossKernel> kernels{candidate.loss};
  for (const LossKernel loss : {LossKernel::fused, LossKernel::chunked}) {
    const auto& axis = traits.axes.loss;
    const bool supported = std::find(axis.begin(), axis.end(), loss) != axis.end();
    if (supported && loss > candidate.loss) kernels.push_back(loss);
  }
  return kernels;
}

/// Its own, then the one without weights.
std::vector<AttentionKernel> attentions(const Candidate& candidate) {
  if (candidate.attention == AttentionKernel::flash) return {AttentionKernel::flash};
  return {candidate.attention, AttentionKernel::flash};
}

/// Its own, then those that hold more on the host, and on the disk.
std::vector<Offload> offloads(const TargetTraits& traits, const Candidate& candidate) {
  const auto moved = [](const Offload& o) { return o.optimizer + o.params + o.activations; };
  std::vector<Offload> more{candidate.offload};
  for (const Offload& offload : traits.axes.offload) {
    const bool further = offload.to > candidate.offload.to && moved(offload) > 0;
    const bool wider = moved(offload) > moved(candidate.offload);
    if (wider || (further && moved(offload) == moved(candidate.offload))) more.push_back(offload);
  }
  return more;
}

int changes(const Candidate& from, const Candidate& to) {
  return (from.zero != to.zero) + (from.micro_batch != to.micro_batch) + (from.ep != to.ep) +
         (from.recompute == to.recompute ? 0 : 1) + (from.loss != to.loss) +
         (from.offload == to.offload ? 0 : 1) + (from.attention != to.attention);
}

/// Every combination, the values that cost the least time turning fastest.
std::vector<Candidate> neighbours_of(const Problem& problem, const TargetTraits& traits,
                                     const Candidate& candidate) {
  std::vector<Candidate> all{candidate};
  const auto expand = [&](auto Candidate::*axis, const auto& values) {
    std::vector<Candidate> expanded;
    for (const Candidate& each : all) {
      for (const auto& value : values) {
        expanded.push_back(each);
        expanded.back().*axis = value;
      }
    }
    all = std::move(expanded);
  };
  expand(&Candidate::offload, offloads(traits, candidate));
  expand(&Candidate::recompute, recomputes(traits, candidate));
  expand(&Candidate::ep, expert_ranks(problem, candidate));
  expand(&Candidate::micro_batch, micro_batches(problem, candidate));
  expand(&Candidate::zero, zero_stages(traits, candidate));
  expand(&Candidate::loss, losses(traits, candidate));
  expand(&Candidate::attention, attentions(candidate));
  return all;
}

}  // namespace

std::optional<Candidate> smallest_change(const Problem& problem, const TargetTraits& traits,
                                         const Candidate& candidate,
                                         const std::function<bool(const Candidate&)>& fits) {
  const std::vector<Rule> rules = rules_for(traits);
  std::vector<Candidate> neighbours = neighbours_of(problem, traits, candidate);
  std::erase_if(neighbours, [&](const Candidate& next) {
    return first_broken(rules, problem, next) != nullptr;
  });
  // Stable: among equally many changes the order above stands, cheapest in time first.
  std::stable_sort(neighbours.begin(), neighbours.end(), [&](const auto& a, const auto& b) {
    return changes(candidate, a) < changes(candidate, b);
  });
  const auto found = std::find_if(neighbours.begin(), neighbours.end(), [&](const Candidate& next) {
    return changes(candidate, next) > 0 && fits(next);
  });
  return found == neighbours.end() ? std::nullopt : std::optional(*found);
}

}  // namespace planwright::estimator
