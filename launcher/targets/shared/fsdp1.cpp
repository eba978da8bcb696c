#include "launcher/targets/shared/fsdp1.h"

#include "launcher/targets/shared/knobs.h"

namespace planwright::targets {

Knob prefetch_knob() {
  return {kPrefetchKnob, all_words<BackwardPrefetch>(),
          "what FSDP1 gathers beside a unit's backward: nothing, or (pre) the next unit"};
}

bool prefetches(const Candidate& candidate) {
  return knob_value(candidate, {prefetch_knob()}, kPrefetchKnob) == word(BackwardPrefetch::pre);
}

std::string prefetch_word(const Candidate& candidate) {
  return prefetches(candidate) ? "BACKWARD_PRE" : "NO_PREFETCH";
}

Rule prefetch_is_fsdp1s(bool (*is_fsdp1)(const Candidate&)) {
  return {"prefetch_is_fsdp1s",
          [is_fsdp1](const Problem&, const Candidate& c) { return prefetches(c) && !is_fsdp1(c); },
          "the knob backward_prefetch is FSDP1's: fully_shard decides for itself what it gathers "
          "ahead",
          "use the knob engine=fsdp1 with --zero 2 or 3, or leave backward_prefetch out",
          "pytorch/pytorch torch/distributed/fsdp/_runtime_utils.py, _prefetch_handle @ v2.11.0"};
}

}  // namespace planwright::targets
