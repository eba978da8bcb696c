#include "estimator/spec/recompute_rules.h"

#include <algorithm>
#include <optional>

#include "estimator/spec/model_part.h"
#include "estimator/spec/recompute_plan.h"

namespace planwright {
namespace {

/// Blocks that a way to recompute counts beyond those of the largest chunk of any stage; negative
/// if there are more. Nothing if it counts none.
std::optional<std::int64_t> blocks_too_many(const Problem& p, const Candidate& c) {
  if (c.recompute.k == 0 || c.pp > p.model.layers()) return std::nullopt;
  const auto layers = stage_layers(p.model, c);
  const std::int64_t most = *std::max_element(layers.begin(), layers.end());
  return c.recompute.k - stage_chunk(most, c.vpp, 0).layers;
}

}  // namespace

std::vector<Rule> recompute_rules(const std::string& source) {
  const auto counts_all = [](RecomputeKind kind) {
    return [kind](const Problem& p, const Candidate& c) {
      return c.recompute.kind == kind && blocks_too_many(p, c) == 0;
    };
  };
  return {{"recompute_within_stage",
           [](const Problem& p, const Candidate& c) { return blocks_too_many(p, c) > 0; },
           "recompute {recompute} counts more blocks than any stage has at pp {pp} and vpp {vpp}",
           "use a count of at most a stage's blocks, or --recompute full", source},
          {"recompute_first_of_all", counts_all(RecomputeKind::first),
           "recompute {recompute} is all blocks of every stage at pp {pp} and vpp {vpp}",
           "use --recompute full", source},
          {"recompute_alternate_of_one", counts_all(RecomputeKind::alternate),
           "recompute {recompute} is the first block of each stage at pp {pp} and vpp {vpp} alone",
           "use --recompute first:1, or a smaller count", source}};
}

}  // namespace planwright
