#include "launcher/targets/shared/stand_in.h"

namespace planwright::targets {

TargetTraits stand_in_traits(const std::string& name, const std::string& version) {
  TargetTraits traits;
  traits.name = name;
  traits.version = version;
  traits.axes.recompute = {Recompute{}, {RecomputeKind::full, 0, {}}};
  traits.axes.attention = {AttentionKernel::flash, AttentionKernel::eager};
  traits.kernels = [](DeviceKind) { return KernelSet::composed; };
  traits.transport = [](DeviceKind kind) {
    return kind == DeviceKind::cpu ? Transport::gloo : Transport::nccl;
  };
  traits.overlaps = [](const Candidate&) { return true; };
  traits.stand_in_kernels = true;
  return traits;
}

std::vector<Rule> joined(const std::vector<std::vector<Rule>>& groups) {
  std::vector<Rule> all;
  for (const std::vector<Rule>& group : groups) all.insert(all.end(), group.begin(), group.end());
  return all;
}

}  // namespace planwright::targets
