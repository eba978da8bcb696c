#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/holdings.h"
#include "estimator/kept_program.h"
#include "estimator/liveness.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/flat_layout.h"
#include "estimator/spec/model_part.h"
#include "estimator/step_shape.h"

/// A stage's whole step: its micro-batches in the schedule's order, and the windows in which
/// gathered weights and buckets of gradients are there (Sharding; docs/runtime.md).
namespace planwright::estimator {

struct StageStep {
  const ModelSpec& model;
  ModelPart part;
  StepShape shape;
  const FlatLayout& layout;
  const FlatLayout& frozen;
  Recompute recompute;
  Sharding sharding{};
  bool overlap = true;
  std::vector<std::int64_t> growing{};      ///< by unit: see growing_bytes
  bool regrows = false;                     ///< in each backward, and goes when it has ended
  Ledger with_gradients{};                  ///< see bytes_with_gradients
  std::optional<WeightFormat> quantised{};  ///< of the frozen linear matrices
  Schedule schedule = Schedule::one_f_one_b;
  int stage = 0, stages = 1, chunks = 1;
  std::int64_t micro_batches = 1;
  const FlatLayout* experts = nullptr;  ///< apart, which come and go with their units as well
};

/// What the steps of a candidate's stages have in common. Refers to what it was made of.
struct StepFacts {
  StepFacts(const Problem& of_problem, const TargetTraits& of_traits,
            const Candidate& of_candidate);

  const Problem& problem;
  const TargetTraits& traits;
  const Candidate& candidate;
  StepShape shape;
  Sharding sharding;
  Holdings holdings;
  bool regrows = false, overlap = true;
  std::int64_t micro_batches = 1;
};

/// Of stage `number`, whose part and layouts these are. Refers to the problem's model and the
/// layouts.
StageStep stage_step(const StepFacts& facts, int number, const ModelPart& part,
                     const FlatLayout& layout, const FlatLayout& frozen);

/// Peaks of each phase, holdings apart, in the order of Phase. Load, reduce and optimizer allocate
/// nothing. Scripts are out of `programs`, and left there for the next.
std::array<Peaks, kWordCount<Phase>> stage_peaks(const StageStep& step, KeptPrograms& programs);

/// Activations that the stage keeps on its host: bytes there at most, and those that one
/// micro-batch sends and fetches.
HostCopies stage_copies(const StageStep& step, KeptPrograms& programs);

/// Every tensor that the step makes, in order, holdings apart. Once the pipeline is full two
/// micro-batches stand for all that follow.
std::vector<Instant> stage_timeline(const StageStep& step);

}  // namespace planwright::estimator
