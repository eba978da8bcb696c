#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::fsdp {

/// What shards. The knob's values: fsdp2, the default, which is fully_shard and at zero 0 DDP; and
/// fsdp1, FullyShardedDataParallel.
enum class Engine { fsdp2, fsdp1 };
constexpr const char* kEngineKnob = "engine";

/// Whose kernel the loss fused is. The knob's values: none, the default; and flash_attn, which
/// takes the logits that the model returns.
enum class FusedLoss { none, flash_attn };
constexpr const char* kFusedLossKnob = "fused_loss";

/// Whether FullyShardedDataParallel does.
bool is_fsdp1(const Candidate& candidate);

/// The knobs, the defaults first.
const std::vector<Knob>& emitted_knobs();

/// What a script that shards with these, or not at all, cannot be told.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::fsdp

namespace planwright {
template <>
struct Words<targets::fsdp::Engine> {
  static constexpr std::array<std::string_view, 2> kWords{"fsdp2", "fsdp1"};
};
template <>
struct Words<targets::fsdp::FusedLoss> {
  static constexpr std::array<std::string_view, 2> kWords{"none", "flash_attn"};
};
}  // namespace planwright
