#pragma once

#include <vector>

#include "estimator/spec/target_traits.h"

namespace planwright::targets::accelerate {

/// What shards. The knob's values: fsdp2, the default, which at zero 0 is DDP; fsdp1; deepspeed,
/// Accelerate's plug-in of that name.
enum class Engine { fsdp2, fsdp1, deepspeed };
constexpr const char* kEngineKnob = "engine";

Engine engine_of(const Candidate& candidate);

/// Whether FullyShardedDataParallel shards.
bool is_fsdp1(const Candidate& candidate);

/// The engine, what it gathers ahead, and how modules run.
const std::vector<Knob>& emitted_knobs();

/// What an Accelerate YAML cannot say.
std::vector<Rule> emit_rules();

}  // namespace planwright::targets::accelerate

namespace planwright {
template <>
struct Words<targets::accelerate::Engine> {
  static constexpr std::array<std::string_view, 3> kWords{"fsdp2", "fsdp1", "deepspeed"};
};
}  // namespace planwright
