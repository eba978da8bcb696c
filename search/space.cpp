#include "search/space.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "estimator/spec/axis_values.h"
#include "estimator/spec/error.h"

namespace planwright::search {
namespace {

using Candidates = std::vector<Candidate>;

/// Every candidate so far, continued with each value that `values_for` gives it for one axis.
template <class T, class ValuesFor>
Candidates expand(const Candidates& partial, T Candidate::*field, const ValuesFor& values_for) {
  Candidates expanded;
  for (const Candidate& candidate : partial) {
    for (const auto& value : values_for(candidate)) {  // of bools not a T, but what stands for it
      expanded.push_back(candidate);
      expanded.back().*field = value;
    }
  }
  return expanded;
}

/// The same for an axis that is as asked for, or else as the target supports it.
template <class T>
Candidates expand(const Candidates& partial, T Candidate::*field, const std::vector<T>& asked,
                  const std::vector<T>& supported) {
  const std::vector<T> values = canonical(asked.empty() ? supported : asked);
  return expand(
      partial, field, [&](const Candidate&) -> const auto& { return values; });
}

std::vector<int> divisors(std::int64_t n) {
  std::vector<int> found;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    found.push_back(static_cast<int>(d));
    if (n / d <= std::numeric_limits<int>::max()) found.push_back(static_cast<int>(n / d));
  }
  return canonical(found);
}

/// Those of `values` that divide n; 1 if none does.
std::vector<int> dividing(std::int64_t n, const std::vector<int>& values) {
  std::vector<int> found;
  for (const int value : values) {
    if (n % value == 0) found.push_back(value);
  }
  return found.empty() ? std::vector<int>{1} : found;
}

/// Replicas of at least two shards.
std::vector<int> free_hsdp(const SupportedAxes& axes, const Candidate& candidate) {
  if (candidate.zero == 0) return {1};
  std::vector<int> found = dividing(candidate.dp, axes.hsdp);
  if (found.size() > 1 && found.back() == candidate.dp) found.pop_back();
  return found;
}

std::vector<int> free_dp(const Problem& problem, const Candidate& candidate) {
  // Divided one by one, which is the same and cannot overflow.
  return {std::max(1, problem.cluster.devices() / candidate.tp / candidate.pp / candidate.cp)};
}

/// ZeRO shards over the data ranks: with one of them every stage is the same, but for what can be
/// offloaded in it.
bool is_lower_stage_alike(const Candidate& candidate, int lowest) {
  const bool offloads = candidate.offload.optimizer || candidate.offload.params;
  return candidate.data_ranks() == 1 && candidate.zero > lowest && !offloads;
}

/// A stage by itself has nothing to be interleaved with, and a chunk has a block at least.
std::vector<int> free_chunks(const Problem& problem, const SupportedAxes& axes,
                             const Candidate& candidate) {
  std::vector<int> counts = canonical(axes.vpp);
  const std::int64_t most = candidate.pp == 1 ? 1 : problem.model.layers() / candidate.pp;
  while (counts.size() > 1 && counts.back() > most) counts.pop_back();
  return counts;
}

/// Experts are split over the ranks of a stage, some of each rank's whole or every one in parts.
std::vector<int> free_expert_ranks(const Problem& problem, const std::vector<int>& supported,
                                   std::int64_t ranks) {
  return problem.model.has_experts() ? canonical(dividing(ranks, supported)) : std::vector<int>{1};
}

/// Only stages of several chunks are interleaved, and they are.
std::vector<Schedule> free_schedules(const SupportedAxes& axes, const Candidate& candidate) {
  std::vector<Schedule> schedules;
  for (const Schedule schedule : axes.schedule) {
    const bool plain = schedule == Schedule::gpipe || schedule == Schedule::one_f_one_b;
    if (plain == (candidate.vpp == 1)) schedules.push_back(schedule);
  }
  return schedules.empty() ? axes.schedule : schedules;
}

/// Where nothing says how many sequences there are: two to each doubling, so that the largest one
/// that fits is less than a third short of what would.
const std::vector<int> kMicroBatches{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256};

std::vector<int> free_micro_batch(const Problem& problem, const Candidate& candidate) {
  const std::int64_t batch = problem.workload.global_batch;
  if (batch == 0) return kMicroBatches;
  return batch % candidate.dp == 0 ? divisors(batch / candidate.dp) : std::vector<int>{1};
}

Candidates expand_layout(const Problem& problem, const SupportedAxes& axes,
                         const SpaceRequest& request) {
  Candidates all{Candidate{}};
  const auto degrees = [&](const std::vector<int>& asked, const std::vector<int>& supported,
                           std::int64_t ranks) {
    return canonical(asked.empty() ? dividing(ranks, supported) : asked);
  };
  const auto expert_degrees = [&](const std::vector<int>& asked, const std::vector<int>& supported,
                                  std::int64_t ranks) {
    return asked.empty() ? free_expert_ranks(problem, supported, ranks) : canonical(asked);
  };
  const int devices = problem.cluster.devices();
  all = expand(all, &Candidate::tp,
               [&](const Candidate&) { return degrees(request.tp, axes.tp, devices); });
  all = expand(all, &Candidate::pp, [&](const Candidate& candidate) {
    return degrees(request.pp, axes.pp, devices / candidate.tp);
  });
  all = expand(all, &Candidate::vpp, [&](const Candidate& candidate) {
    return request.vpp.empty() ? free_chunks(problem, axes, candidate) : canonical(request.vpp);
  });
  all = expand(all, &Candidate::cp, [&](const Candidate& candidate) {
    return degrees(request.cp, axes.cp, devices / candidate.tp / candidate.pp);
  });
  all = expand(all, &Candidate::ep, [&](const Candidate& candidate) {
    return expert_degrees(request.ep, axes.ep, devices / candidate.pp);
  });
  all = expand(all, &Candidate::etp, [&](const Candidate& candidate) {
    return expert_degrees(request.etp, axes.etp, devices / candidate.pp / candidate.ep);
  });
  all = expand(all, &Candidate::dp, [&](const Candidate& candidate) {
    return request.dp.empty() ? free_dp(problem, candidate) : canonical(request.dp);
  });
  all = expand(all, &Candidate::zero, request.zero, axes.zero);
  all = expand(all, &Candidate::hsdp, [&](const Candidate& candidate) {
    return canonical(request.hsdp.empty() ? free_hsdp(axes, candidate) : request.hsdp);
  });
  return expand(all, &Candidate::micro_batch, [&](const Candidate& candidate) {
    return request.micro_batch.empty() ? free_micro_batch(problem, candidate)
                                       : canonical(request.micro_batch);
  });
}

/// A kernel that keeps all weights is worth a probe only where the one that does not is illegal.
std::vector<AttentionKernel> free_attention(const Problem& problem, const SupportedAxes& axes,
                                            const std::vector<Rule>& rules, Candidate candidate) {
  for (const AttentionKernel kernel : axes.attention) {
    candidate.attention = kernel;
    if (first_broken(rules, problem, candidate) == nullptr) return {kernel};
  }
  return {axes.attention.front()};
}

/// The fused loss saves a wide copy of narrow logits: with wide ones it is the plain one.
std::vector<LossKernel> free_loss(const Problem& problem, const SupportedAxes& axes) {
  std::vector<LossKernel> losses = axes.loss;
  const DType compute = problem.workload.recipe.compute;
  if (compute == accumulation_type(compute) && losses.size() > 1) {
    losses.erase(std::remove(losses.begin(), losses.end(), LossKernel::fused), losses.end());
  }
  return losses;
}

/// To the memory of a host that is not the devices' own; a disk has to be asked for, as it needs a
/// folder.
std::vector<Offload> free_offload(const Problem& problem, const SupportedAxes& axes) {
  if (problem.cluster.device.kind != DeviceKind::cuda) return {Offload{}};
  std::vector<Offload> offloads = axes.offload;
  std::erase_if(offloads, [](const Offload& o) { return o.to == OffloadTo::nvme; });
  return offloads;
}

Candidates expand_techniques(Candidates all, const Problem& problem, const SupportedAxes& axes,
                             const std::vector<Rule>& rules, const SpaceRequest& request) {
  all = expand(all, &Candidate::sp, [&](const Candidate& candidate) {
    return canonical(!request.sp.empty() ? request.sp
                     : candidate.tp == 1 ? std::vector<bool>{false}
                                         : axes.sp);
  });
  all = expand(all, &Candidate::schedule, [&](const Candidate& candidate) {
    return canonical(!request.schedule.empty() ? request.schedule
                     : candidate.pp == 1       ? std::vector<Schedule>{Schedule::one_f_one_b}
                                               : free_schedules(axes, candidate));
  });
  all = expand(all, &Candidate::recompute, request.recompute, axes.recompute);
  all = expand(all, &Candidate::offload, request.offload, free_offload(problem, axes));
  const int lowest = canonical(request.zero.empty() ? axes.zero : request.zero).front();
  std::erase_if(all, [&](const Candidate& c) { return is_lower_stage_alike(c, lowest); });
  all = expand(all, &Candidate::attention, [&](const Candidate& candidate) {
    return canonical(request.attention.empty() ? free_attention(problem, axes, rules, candidate)
                                               : request.attention);
  });
  return expand(all, &Candidate::loss, request.loss, free_loss(problem, axes));
}

/// The knob's values that are asked for, in its own order.
std::vector<std::string> knob_values(const Knob& knob, const SpaceRequest& request) {
  const auto asked = request.knobs.find(knob.name);
  if (asked == request.knobs.end() || asked->second.empty()) return {knob.values.front()};
  std::vector<std::string> values;
  for (const std::string& value : knob.values) {
    const auto found = std::find(asked->second.begin(), asked->second.end(), value);
    if (found != asked->second.end()) values.push_back(value);
  }
  return values;
}

Candidates expand_knob(const Candidates& partial, const Knob& knob, const SpaceRequest& request) {
  const std::vector<std::string> values = knob_values(knob, request);
  Candidates expanded;
  for (const Candidate& candidate : partial) {
    for (const std::string& value : values) {
      expanded.push_back(candidate);
      if (value != knob.values.front()) expanded.back().knobs.emplace_back(knob.name, value);
    }
  }
  return expanded;
}

/// Sizes of groups and batches start at 1; whatever divides by one may rely on it.
void check_sizes(const SpaceRequest& request) {
  const std::pair<const char*, const std::vector<int>*> sizes[] = {
      {"tp", &request.tp}, {"pp", &request.pp},     {"vpp", &request.vpp},
      {"cp", &request.cp}, {"ep", &request.ep},     {"etp", &request.etp},
      {"dp", &request.dp}, {"hsdp", &request.hsdp}, {"micro_batch", &request.micro_batch}};
  for (const auto& [name, values] : sizes) {
    for (const int value : *values) {
      if (value >= 1) continue;
      throw InputError(
          {"", std::string("[space] ") + name, std::to_string(value), "must be at least 1", "1"});
    }
  }
}

void check_knobs(const std::vector<Knob>& knobs, const SpaceRequest& request) {
  std::vector<std::string> names;
  names.reserve(knobs.size());
  for (const Knob& knob : knobs) names.push_back(knob.name);
  for (const auto& [name, values] : request.knobs) {
    const auto knob = std::find(names.begin(), names.end(), name);
    if (knob == names.end()) {
      throw InputError({"", "[space] " + name, "", "is neither an axis nor a knob of the target",
                        nearest_word(name, names)});
    }
    const std::vector<std::string>& known =
        knobs[static_cast<std::size_t>(knob - names.begin())].values;
    for (const std::string& value : values) {
      if (std::find(known.begin(), known.end(), value) != known.end()) continue;
      throw InputError({"", "[space] " + name, value, "must be one of " + join_words(known),
                        nearest_word(value, known)});
    }
  }
}

/// See Space::shares.
std::vector<double> step_shares(const Problem& problem, const std::vector<Candidate>& legal) {
  if (problem.workload.global_batch != 0) return {};
  std::vector<double> shares;
  for (const Candidate& each : legal) {
    shares.push_back(static_cast<double>(tokens_per_step(problem, each)));
  }
  const double most = shares.empty() ? 1 : *std::max_element(shares.begin(), shares.end());
  for (double& share : shares) share /= most;
  return shares;
}

/// Adds the legal ones to the space, and counts the others.
void sort_out(const Problem& problem, const std::vector<Rule>& rules, Candidates all,
              Space& space) {
  space.counted += static_cast<std::int64_t>(all.size());
  for (Candidate& candidate : all) {
    if (const Rule* broken = first_broken(rules, problem, candidate)) {
      if (++space.dropped[broken->name] == 1) {
        space.examples[broken->name] = explain(*broken, problem, candidate);
      }
    } else {
      space.legal.push_back(std::move(candidate));
    }
  }
}

/// One layout after the other: most of their candidates may be illegal, and need not be kept.
template <class Visit>
void for_each_layout(const Problem& problem, const TargetTraits& traits,
                     const std::vector<Rule>& rules, const SpaceRequest& request,
                     const Visit& visit) {
  for (const Candidate& layout : expand_layout(problem, traits.axes, request)) {
    Candidates all = expand_techniques({layout}, problem, traits.axes, rules, request);
    for (const Knob& knob : traits.knobs) all = expand_knob(all, knob, request);
    visit(std::move(all));
  }
}

/// A second round, which only a space without a legal candidate needs.
Refusal refusal_of(const Problem& problem, const TargetTraits& traits,
                   const std::vector<Rule>& rules, const SpaceRequest& request) {
  RefusalCount count(problem, rules);
  for_each_layout(problem, traits, rules, request, [&](const Candidates& all) {
    for (const Candidate& each : all) count.add(each);
  });
  return count.refusal();
}

}  // namespace

Space enumerate(const Problem& problem, const TargetTraits& traits, const SpaceRequest& request) {
  check_sizes(request);
  check_knobs(traits.knobs, request);
  const std::vector<Rule> rules = rules_for(traits);
  Space space;
  for_each_layout(problem, traits, rules, request,
                  [&](Candidates all) { sort_out(problem, rules, std::move(all), space); });
  if (space.legal.empty()) space.refusal = refusal_of(problem, traits, rules, request);
  space.shares = step_shares(problem, space.legal);
  return space;
}

}  // namespace planwright::search
