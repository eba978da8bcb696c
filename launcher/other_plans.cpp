#include "launcher/other_plans.h"

#include "estimator/spec/error.h"

namespace planwright::launcher {
namespace {

std::vector<Candidate> with_each_offload(const Candidate& candidate) {
  std::vector<Candidate> all;
  for (const OffloadTo to : {OffloadTo::cpu, OffloadTo::nvme}) {
    for (const Offload& each :
         {Offload{.optimizer = true}, Offload{.optimizer = true, .params = true},
          Offload{.activations = true}, Offload{true, true, true}}) {
      all.push_back(candidate);
      all.back().offload = each;
      all.back().offload.to = to;
    }
  }
  return all;
}

std::vector<Candidate> with_each_rank_layout(const Candidate& candidate) {
  if (candidate.dp % 2 != 0) return {};
  Candidate split = candidate;
  split.dp /= 2;
  std::vector<Candidate> all(7, split);
  all[0].tp *= 2;
  all[1].tp *= 2;
  all[1].sp = true;
  all[2].pp *= 2;
  all[3].pp *= 2;
  all[3].vpp = 2;
  all[3].schedule = Schedule::interleaved;
  all[4].cp *= 2;
  all[5].dp = all[6].dp = candidate.dp;
  all[5].ep *= 2;
  all[6].hsdp = 2;
  return all;
}

/// Two stages, of which the second has a block or two more.
std::vector<Candidate> with_uneven_stages(const Candidate& candidate, std::int64_t blocks) {
  if (candidate.dp * candidate.pp % 2 != 0 || blocks < 3) return {};
  Candidate uneven = candidate;
  uneven.dp = candidate.dp * candidate.pp / 2;
  uneven.pp = 2;
  for (const std::int64_t of_stage : {(blocks - 1) / 2, blocks - (blocks - 1) / 2}) {
    uneven.stages.push_back({of_stage, candidate.recompute, candidate.offload});
  }
  return {uneven};
}

template <class Value>
std::vector<Candidate> with_each(const Candidate& candidate, Value Candidate::*axis,
                                 const std::vector<Value>& values) {
  std::vector<Candidate> all(values.size(), candidate);
  for (std::size_t i = 0; i < values.size(); ++i) all[i].*axis = values[i];
  return all;
}

/// The candidate and what differs from it in one dimension.
std::vector<Candidate> neighbours(const Candidate& candidate, const SupportedAxes& axes,
                                  std::int64_t blocks) {
  std::vector<Candidate> all{candidate};
  for (const auto& more : {with_each_offload(candidate), with_each_rank_layout(candidate),
                           with_uneven_stages(candidate, blocks),
                           with_each(candidate, &Candidate::recompute, axes.recompute),
                           with_each(candidate, &Candidate::loss, axes.loss),
                           with_each(candidate, &Candidate::attention, axes.attention)}) {
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

std::vector<Candidate> with_each_knob(const Candidate& candidate, const TargetTraits& traits) {
  std::vector<Candidate> all{candidate};
  for (const Knob& knob : traits.knobs) {
    for (const std::string& value : knob.values) {
      all.push_back(candidate);
      all.back().knobs = {{knob.name, value}};
    }
  }
  return all;
}

/// Nothing where the target has no such plan.
void add_emitted(const Target& target, const EmitRequest& asked,
                 std::vector<LaunchConfig>& configs) {
  try {
    configs.push_back(target.emit(asked));
  } catch (const InputError&) {
  }
}

/// With each value of each knob, in every other type that the target computes in.
void add_other_precisions(const Target& target, const EmitRequest& request,
                          std::vector<LaunchConfig>& configs) {
  for (const std::string& name : all_words<Precision>()) {
    const Precision precision = *from_word<Precision>(name);
    const auto recipe = target.traits.recipe(precision);
    if (!recipe || precision == request.plan.problem.workload.precision) continue;
    EmitRequest asked = request;
    asked.plan.problem.workload.precision = precision;
    asked.plan.problem.workload.recipe = *recipe;
    for (Candidate each : with_each_knob(request.plan.candidate, target.traits)) {
      for (each.zero = 0; each.zero <= 3; ++each.zero) {
        asked.plan.candidate = each;
        add_emitted(target, asked, configs);
      }
    }
  }
}

}  // namespace

std::vector<LaunchConfig> other_plans(const Target& target, const EmitRequest& request) {
  std::vector<LaunchConfig> configs;
  const std::int64_t blocks = request.plan.problem.model.layers();
  EmitRequest asked = request;
  for (Candidate each : with_each_knob(request.plan.candidate, target.traits)) {
    for (each.zero = 0; each.zero <= 3; ++each.zero) {
      for (const Candidate& other : neighbours(each, target.traits.axes, blocks)) {
        asked.plan.candidate = other;
        add_emitted(target, asked, configs);
      }
    }
  }
  add_other_precisions(target, request, configs);
  return configs;
}

}  // namespace planwright::launcher
