#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

/// torchtitan's code as it was and is: what of it changes memory, and since when. The revision is a
/// knob, as the version of transformers is; files are written for the plan's target version.
namespace planwright::targets::torchtitan {

/// Since when the code is as it was until the next one, latest first.
enum class Revision { v0_2_2, september_2025, july_2025, april_2025, june_2024, march_2024 };
/// What torch.compile is asked for.
enum class Compiled { nothing, loss, blocks, all };

constexpr const char* kRevisionKnob = "torchtitan";
constexpr const char* kCompileKnob = "compile";

const std::vector<Knob>& revision_knobs();

/// The model gives logits in fp32, which the training loop holds until the next ones.
bool holds_logits(const Candidate& candidate);
/// Norms are made of torch's operators.
bool composes_norms(const Candidate& candidate);
/// Embedding, final norm and head are one unit of fully_shard's, which is the whole model.
bool joins_outer_units(const Candidate& candidate);
bool has_fused_adamw(const Candidate& candidate);
/// Experts' results are weighed before each token's are summed, by scatter_add.
bool weighs_rows(const Candidate& candidate);
/// Recomputation of single operators saves what experts exchange.
bool keeps_exchanged(const Candidate& candidate);

Compiled compiled(const Candidate& candidate);
/// As compiled() says, and with products in 8 bits, which are written to be compiled.
bool compiles_blocks(const Problem& problem, const Candidate& candidate);
bool compiles_loss(const Problem& problem, const Candidate& candidate);

}  // namespace planwright::targets::torchtitan

namespace planwright {
template <>
struct Words<targets::torchtitan::Revision> {
  static constexpr std::array<std::string_view, 6> kWords{"0.2.2",   "2025-09", "2025-07",
                                                          "2025-04", "2024-06", "2024-03"};
};
template <>
struct Words<targets::torchtitan::Compiled> {
  static constexpr std::array<std::string_view, 4> kWords{"off", "loss", "blocks", "on"};
};
}  // namespace planwright
