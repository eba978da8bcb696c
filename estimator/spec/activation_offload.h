#pragma once

#include <compare>
#include <cstdint>

/// What a target does with activations between a forward and its backward where a plan offloads
/// them. A target says which it is (TargetTraits::activation_offload); estimator/stage_script and
/// the step programs interpret it.
namespace planwright {

/// Which tensors go to the host's memory.
enum class Leaving {
  nothing,
  inputs,  ///< of blocks that are run again
  modules  ///< what some modules of a block save, each group when its module has run
};

/// Until when an input that has come back is there.
enum class Staying {
  with_block,        ///< the block's backward has ended
  to_next_rebuild,   ///< the block before it has been run again
  while_referenced,  ///< nothing of the block that was run again refers to it
};

/// Megatron Core's names. What one of them saves comes back when the one behind it has gone back.
struct OffloadedModules {
  bool attn_norm = false, qkv_linear = false, core_attn = false, attn_proj = false;
  bool mlp_norm = false, expert_fc1 = false, moe_act = false;
  auto operator<=>(const OffloadedModules&) const = default;
};

struct ActivationOffload {
  Leaving leaving = Leaving::nothing;
  bool pinned = true;  ///< what is there: see Holding::pinned
  bool beside = true;  ///< copies run beside the passes; else these wait for them

  // Of inputs.
  int follow = 0;  ///< those of so many blocks before the one at work are still there in a forward,
  int found = 0;   ///< and so many of the last blocks' in the backward, which takes them from there
  int kept = 0;    ///< of these, so many have not been copied either
  Staying staying = Staying::with_block;
  bool copies_head = false;  ///< what final norm and loss save is copied, and stays

  // Of modules. The first backward finds those of its last block.
  OffloadedModules modules{};
  std::int64_t least_elements = 0;  ///< a smaller tensor stays

  auto operator<=>(const ActivationOffload&) const = default;
};

}  // namespace planwright
