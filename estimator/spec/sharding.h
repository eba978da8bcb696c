#pragma once

#include <compare>
#include <cstdint>

#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"

/// What the data ranks of a target do with weights and gradients in the course of a step, beside
/// what they hold. A unit is what is gathered and reduced together: see ModelPart.
namespace planwright {

/// When a rank has weights of which others hold parts.
enum class Gathering {
  none,              ///< always: every rank holds them all
  after_step,        ///< always: the ranks update a part each and gather the new ones
  each_use,          ///< while their unit is at work, forwards and once more backwards
  each_micro_batch,  ///< from their unit's forward to the end of its backward
  each_step,         ///< from the first forward to the last backward: a Holding of the target
};

struct Sharding {
  Gathering gathering = Gathering::none;
  DType gathered = DType::fp32;  ///< the type of gathered weights
  /// With each_use: a unit stays gathered until its backward if no more elements than this are used
  /// in between.
  std::int64_t reuse_elements = 0;

  /// With each_use: units are gathered ahead of their use until this many elements or more are
  /// there over the one at work. 0: the next one alone.
  std::int64_t ahead_elements = 0;
  /// What embeds, the final norm and the head are there from the first forward to the last
  /// backward.
  bool keeps_outer = false;

  bool by_unit = false;  ///< buckets close with their unit, whatever their size
  bool buckets = false;  ///< they come with the first gradient and go when they have been reduced
  DType made = DType::fp32;     ///< the type in which a backward makes its weights' gradients
  DType reduced = DType::fp32;  ///< the type in which they are reduced
  bool reduced_apart = false;   ///< for that a bucket is copied into another one, and goes at once
  bool each_micro_batch = false;  ///< gradients are reduced in each, not in the last one only
  /// Buckets that have been reduced stay while all of them have no more elements than this, and at
  /// most until the backward has ended; what is reduced is a tensor of its own. 0: until the next
  /// bucket is complete.
  std::int64_t queued_elements = 0;

  /// A unit is gathered into a buffer, and its weights are copied out of that. In a forward the
  /// buffer stays until the next unit's is there, the last one's until the loss is; backwards the
  /// next unit's comes ahead of its weights.
  bool copies_out = false;
  /// With each_use and copies_out: from the head's forward its weights stay for its backward.
  bool keeps_head = false;

  /// The embedding is a unit with the final norm and the head, which is gathered from the first
  /// forward to the last backward.
  bool one_outer_unit = false;
  /// Blocks hold their input and its gradient until the last backward has ended.
  bool holds_inputs = false;

  auto operator<=>(const Sharding&) const = default;

  /// Weights come and go with the units that use them.
  bool gathers_units() const {
    return gathering == Gathering::each_use || gathering == Gathering::each_micro_batch;
  }
  /// A rank holds its part of the weights only.
  bool shards_weights() const { return gathers_units() || gathering == Gathering::each_step; }
};

/// ZeRO over flat buffers, as docs/runtime.md has it: gradients in the recipe's type, sharded and
/// reduced in each micro-batch from stage 2 on, weights in the stored one and by units with 3.
Sharding flat_sharding(const Problem& problem, const Candidate& candidate);

}  // namespace planwright
