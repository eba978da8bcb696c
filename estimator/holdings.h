#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "estimator/spec/flat_layout.h"
#include "estimator/spec/ledger.h"
#include "estimator/spec/target_traits.h"

/// The rows of TargetTraits::holdings in bytes.
namespace planwright::estimator {

/// A stage's trained and frozen tensors. Trained experts are apart where the target has them so.
struct Layouts {
  const FlatLayout& trained;
  const FlatLayout& frozen;
  const FlatLayout& experts;
};

/// What is held in each phase, in the order of Phase; what grows only where no micro-batch runs, in
/// reduce and optimizer, and what comes with gradients nowhere.
std::array<Ledger, kWordCount<Phase>> held_bytes(const Problem& problem, const TargetTraits& traits,
                                                 const Candidate& candidate,
                                                 const Layouts& layouts);

/// What a rank keeps in its host's memory, in the phase that has most.
Bytes host_bytes(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
                 const Layouts& layouts);

/// Weights that a rank keeps off its device, in bytes.
Bytes weights_off_device(const Problem& problem, const TargetTraits& traits,
                         const Candidate& candidate, const Layouts& layouts);

/// Of what grows: bytes that the first backward of each unit makes. Empty if nothing grows.
std::vector<std::int64_t> growing_bytes(const Problem& problem, const TargetTraits& traits,
                                        const Candidate& candidate, const FlatLayout& trained);
/// The same of a layout that is spread over `ranks`: experts that are apart.
std::vector<std::int64_t> growing_bytes(const Problem& problem, const TargetTraits& traits,
                                        const Candidate& candidate, const FlatLayout& experts,
                                        int ranks);
/// Whether that is so of each micro-batch's backward, and ends with it.
bool regrows(const Problem& problem, const TargetTraits& traits, const Candidate& candidate);

/// What comes with each backward's first gradient and goes when that has ended.
Ledger bytes_with_gradients(const Problem& problem, const TargetTraits& traits,
                            const Candidate& candidate, const Layouts& layouts);

}  // namespace planwright::estimator
