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
  std::vector<Candidate> all(4, candidate);
  for (Candidate& each : all) each.dp /= 2;
  all[0].tp *= 2;
  all[1].pp *= 2;
  all[2].cp *= 2;
  all[3].dp = candidate.dp;
  all[3].hsdp = 2;
  return all;
}

/// The candidate and what differs from it in one dimension.
std::vector<Candidate> neighbours(const Candidate& candidate, const SupportedAxes& axes) {
  std::vector<Candidate> all{candidate};
  for (const Recompute& each : axes.recompute) {
    all.push_back(candidate);
    all.back().recompute = each;
  }
  for (const auto& more : {with_each_offload(candidate), with_each_rank_layout(candidate)}) {
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

}  // namespace

std::vector<LaunchConfig> other_plans(const Target& target, const EmitRequest& request) {
  std::vector<LaunchConfig> configs;
  for (Candidate each : with_each_knob(request.plan.candidate, target.traits)) {
    for (each.zero = 0; each.zero <= 3; ++each.zero) {
      for (const Candidate& other : neighbours(each, target.traits.axes)) {
        EmitRequest asked = request;
        asked.plan.candidate = other;
        try {
          configs.push_back(target.emit(asked));
        } catch (const InputError&) {  // the target has no such plan
        }
      }
    }
  }
  return configs;
}

}  // namespace planwright::launcher
