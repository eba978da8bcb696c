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

/// The rows that apply to one candidate: asked for once, they are what all its stages hold. Refers
/// to what it was made of.
class Holdings {
 public:
  Holdings(const Problem& problem, const TargetTraits& traits, const Candidate& candidate);

  /// What is held in each phase, in the order of Phase; what grows only where no micro-batch runs,
  /// in reduce and optimizer, and what comes with gradients nowhere.
  std::array<Ledger, kWordCount<Phase>> held_bytes(const Layouts& layouts) const;

  /// What a rank keeps in its host's memory, in the phase that has most.
  Bytes host_bytes(const Layouts& layouts) const;

  /// Weights that a rank keeps off its device, in bytes.
  Bytes weights_off_device(const Layouts& layouts) const;

  /// Of what grows: bytes that the first backward of each unit makes. Empty if nothing grows.
  std::vector<std::int64_t> growing_bytes(const FlatLayout& trained) const;
  /// The same of a layout that is spread over `ranks`: experts that are apart.
  std::vector<std::int64_t> growing_bytes(const FlatLayout& experts, int ranks) const;
  /// Whether that is so of each micro-batch's backward, and ends with it.
  bool regrows() const;

  /// What comes with each backward's first gradient and goes when that has ended.
  Ledger bytes_with_gradients(const Layouts& layouts) const;

 private:
  Bytes bytes_of(const Holding& holding, const Layouts& layouts) const;

  const Problem& problem_;
  const TargetTraits& traits_;
  const Candidate& candidate_;
  std::vector<const Holding*> rows_;
};

}  // namespace planwright::estimator
