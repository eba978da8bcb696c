#include "launcher/targets/shared/activations.h"

namespace planwright::targets {

std::vector<Offload> or_with_activations(std::vector<Offload> offloads) {
  const std::size_t without = offloads.size();
  for (std::size_t i = 0; i < without; ++i) {
    offloads.push_back(offloads[i]);
    offloads.back().activations = true;
  }
  return offloads;
}

Rule no_activation_offload(const std::string& text, const std::string& source) {
  return {"activations_stay",
          [](const Problem&, const Candidate& c) { return c.offload.activations; }, text,
          "use --offload without activations", source};
}

Rule offloads_inputs_only(const std::string& who, const std::string& source) {
  return {"activation_offload_needs_recompute",
          [](const Problem&, const Candidate& c) {
            return c.offload.activations && c.recompute.kind != RecomputeKind::full;
          },
          who +
              " offloads the inputs of recomputed blocks and no other activations: recompute "
              "{recompute}",
          "use --recompute full, or --offload without activations", source};
}

}  // namespace planwright::targets
