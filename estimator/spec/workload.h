#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/spec/serving.h"
#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

namespace planwright {

enum class Job { pretrain, finetune, lora, qlora, inference };
template <>
struct Words<Job> {
  static constexpr std::array<std::string_view, 5> kWords{"pretrain", "finetune", "lora", "qlora",
                                                          "inference"};
};

enum class DType { fp64, fp32, bf16, fp16, fp8 };
template <>
struct Words<DType> {
  static constexpr std::array<std::string_view, 5> kWords{"fp64", "fp32", "bf16", "fp16", "fp8"};
};
constexpr std::int64_t bytes_of(DType type) {
  return std::array<std::int64_t, 5>{8, 4, 2, 2, 1}[static_cast<std::size_t>(type)];
}
/// The type that norms' statistics and the loss are computed in: the wider of fp32 and `compute`.
constexpr DType accumulation_type(DType compute) {
  return compute == DType::fp64 ? DType::fp64 : DType::fp32;
}

/// `--precision`: which types a target keeps where is in its traits' recipe for the word.
enum class Precision { fp64, fp32, bf16, fp16, fp8 };
template <>
struct Words<Precision> {
  static constexpr std::array<std::string_view, 5> kWords{"fp64", "fp32", "bf16", "fp16", "fp8"};
};

/// The type of each copy of a weight. No master: the optimizer updates the stored weights.
struct PrecisionRecipe {
  DType storage = DType::fp32;
  DType compute = DType::fp32;
  DType gradient = DType::fp32;
  std::optional<DType> master;
  DType state = DType::fp32;
  std::optional<DType> summed{};  ///< a second copy of gradients, in which micro-batches are summed
  bool operator==(const PrecisionRecipe&) const = default;
};

enum class OptimizerKind { adamw, adam8bit, paged_adam8bit, adafactor, lion, sgd };
template <>
struct Words<OptimizerKind> {
  static constexpr std::array<std::string_view, 6> kWords{"adamw",     "adam8bit", "paged-adam8bit",
                                                          "adafactor", "lion",     "sgd"};
};

/// Memory kept free on each device: a fraction of it plus an absolute part.
struct Headroom {
  double fraction = 0.05;
  Bytes bytes;
  bool operator==(const Headroom&) const = default;
};

/// What is to be done with the model, whatever the plan.
struct Workload {
  Job job = Job::pretrain;
  std::int64_t seq = 0;  ///< tokens per sequence
  /// Sequences per optimizer step, over all devices. 0: as many as a plan takes at once, of the
  /// target command only.
  std::int64_t global_batch = 0;
  OptimizerKind optimizer = OptimizerKind::adamw;
  Precision precision = Precision::bf16;
  PrecisionRecipe recipe;  ///< what the target keeps for `precision`, with the user's changes
  Headroom headroom;
  // Probabilities. Megatron's: hidden is of the embedding and of the output of attention and MLP,
  // attention of its weights.
  double hidden_dropout = 0;
  double attention_dropout = 0;
  Serving serving{};  ///< of the job inference

  bool operator==(const Workload&) const = default;
};

}  // namespace planwright
