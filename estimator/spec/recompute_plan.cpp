#include "estimator/spec/recompute_plan.h"

#include <algorithm>

namespace planwright {
namespace {

bool is_recomputed(const Recompute& recompute, std::int64_t layer) {
  switch (recompute.kind) {
    case RecomputeKind::full:
    case RecomputeKind::op:
    case RecomputeKind::chunk:
      return true;
    case RecomputeKind::alternate:
      return layer % recompute.k == 0;
    case RecomputeKind::first:
      return layer < recompute.k;
    case RecomputeKind::none:
    case RecomputeKind::selective:
      return false;
  }
  return false;
}

}  // namespace

StageChunk stage_chunk(std::int64_t layers, int chunks, int number) {
  const std::int64_t each = layers / chunks, longer = layers % chunks;
  return {number * each + std::min<std::int64_t>(number, longer), each + (number < longer ? 1 : 0)};
}

RecomputedModules recomputed_modules(const Recompute& recompute) {
  if (recompute.kind != RecomputeKind::selective) return {};
  if (recompute.modules.empty()) return {.core_attn = true};
  const auto names = [&](const char* module) {
    return std::count(recompute.modules.begin(), recompute.modules.end(), module) > 0;
  };
  return {.core_attn = names("core_attn"),
          .layernorm = names("layernorm"),
          .mla_up_proj = names("mla_up_proj"),
          .mlp = names("mlp"),
          .moe = names("moe"),
          .moe_act = names("moe_act"),
          .shared_experts = names("shared_experts")};
}

std::int64_t recomputed_layers(const Recompute& recompute, std::int64_t layers, int chunks) {
  std::int64_t count = 0;
  for (int number = 0; number < chunks; ++number) {
    const std::int64_t in_chunk = stage_chunk(layers, chunks, number).layers;
    for (std::int64_t layer = 0; layer < in_chunk; ++layer) {
      count += is_recomputed(recompute, layer);
    }
  }
  return count;
}

std::vector<RecomputeSegment> recompute_segments(const Recompute& recompute, std::int64_t layers) {
  const std::int64_t step = recompute.kind == RecomputeKind::chunk ? recompute.k : 1;
  std::vector<RecomputeSegment> segments;
  for (std::int64_t first = 0; first < layers; first += step) {
    segments.push_back({first, std::min(step, layers - first), is_recomputed(recompute, first)});
  }
  return segments;
}

std::vector<BackwardVisit> backward_visits(const Recompute& recompute, std::int64_t layers) {
  using Kind = BackwardVisit::Kind;
  const auto segments = recompute_segments(recompute, layers);
  std::vector<BackwardVisit> visits;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    const std::int64_t last = segment->first + segment->count - 1;
    if (segment->recomputed) {
      for (std::int64_t l = segment->first; l < last; ++l) visits.push_back({Kind::rebuild, l});
    }
    visits.push_back({segment->recomputed ? Kind::rebuild_and_backward : Kind::backward, last});
    for (std::int64_t l = last - 1; l >= segment->first; --l) visits.push_back({Kind::backward, l});
  }
  return visits;
}

std::vector<BackwardVisit> backward_visits(const Recompute& recompute, std::int64_t layers,
                                           int chunks) {
  std::vector<BackwardVisit> all;
  for (int number = chunks - 1; number >= 0; --number) {
    const StageChunk chunk = stage_chunk(layers, chunks, number);
    for (BackwardVisit visit : backward_visits(recompute, chunk.layers)) {
      visit.layer += chunk.first;
      all.push_back(visit);
    }
  }
  return all;
}

}  // namespace planwright
