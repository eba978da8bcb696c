#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::hf_trainer {

/// What shards. The knob's values: fsdp2, the default, which at zero 0 is DDP; deepspeed; fsdp1.
enum class Engine { fsdp2, deepspeed, fsdp1 };
constexpr const char* kEngineKnob = "engine";

Engine engine_of(const Candidate& candidate);

/// Whether FullyShardedDataParallel shards.
bool is_fsdp1(const Candidate& candidate);

/// Whether AdamW is the fused one: what is named for transformers 5. Those before it have torch's
/// default.
bool fuses_adamw(const Candidate& candidate);

/// The engine, what it gathers ahead, and how modules run.
const std::vector<Knob>& emitted_knobs();

/// What the Trainer's arguments cannot say.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::hf_trainer

namespace planwright {
template <>
struct Words<targets::hf_trainer::Engine> {
  static constexpr std::array<std::string_view, 3> kWords{"fsdp2", "deepspeed", "fsdp1"};
};
}  // namespace planwright
