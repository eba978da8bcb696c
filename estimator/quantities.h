#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/ledger.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/target_traits.h"

/// How much of everything a plan needs: bytes by account, flops by class, messages by link. Nothing
/// here is learned, so it is computed once per Problem and priced again after every refit.
namespace planwright::estimator {

/// The worst rank's live bytes in one phase, at its largest instants.
struct PhaseBytes {
  Phase phase = Phase::load;
  Ledger tensors;  ///< when the tensors alone are largest: no workspace in it, exact
  Ledger kernels;  ///< when tensors and the workspace of known size are largest
  /// When tensors are largest during a product that takes scratch of a size only the library
  /// knows (the coefficient `gemm_scratch`, which is not in here); absent if there is none.
  std::optional<Ledger> product;
};

/// Work of one rank.
struct Work {
  double matrix_flops = 0;     ///< products with weights
  double other_weights = 0;    ///< that they read beside those that one token goes through
  double attention_flops = 0;  ///< scores and their weighted sums
  double bytes = 0;            ///< read and written by kernels that only move memory
  double launches = 0;         ///< kernels started

  Work& operator+=(const Work& other) {
    matrix_flops += other.matrix_flops;
    other_weights += other.other_weights;
    attention_flops += other.attention_flops;
    bytes += other.bytes;
    launches += other.launches;
    return *this;
  }
  friend Work operator*(double factor, Work work) {
    return {factor * work.matrix_flops, factor * work.other_weights, factor * work.attention_flops,
            factor * work.bytes, factor * work.launches};
  }
};

enum class Collective { all_reduce, reduce_scatter, all_gather, broadcast, send, all_to_all };

/// Equal collectives.
struct Messages {
  Collective collective = Collective::all_reduce;
  double count = 0;
  double bytes = 0;  ///< over all `count`; the whole buffer, not one rank's part
  int ranks = 1;
  int link = 0;  ///< index into ClusterSpec::links, the innermost that spans the ranks
  // On the way of one of them (estimator/parties): answers of the link that are waited for, one
  // after the other, and how many times the link's bandwidth each rank has.
  double hops = 1;
  double lanes = 1;
};

/// What a rank keeps in its host's memory, and what goes to and fro.
struct OffloadQuantities {
  Bytes held{};
  double moved = 0;            ///< bytes, of one micro-batch, beside its passes,
  double waited = 0;           ///< and those that the passes wait for
  double moved_each_step = 0;  ///< bytes, once per step
  double optimizer_bytes = 0;  ///< read and written by the optimizer on the host, per step

  bool any() const { return held.value > 0; }
};

/// One stage's worst rank; all its ranks are alike.
struct StageQuantities {
  std::array<PhaseBytes, kWordCount<Phase>> phases;  ///< in the order of Phase
  Ledger loaded;                                     ///< after the model and its states are made
  Bytes preallocated{};  ///< of the peaks, what is taken once, in large blocks, and never broken up

  Work forward, backward, recompute, head;  ///< of one micro-batch; head: its products and the loss
  /// Of one micro-batch's backward, what the schedule may put off to where the stage would wait.
  Work postponed;
  /// Of one micro-batch: those that it waits for, and those that are carried out beside it.
  std::vector<Messages> waited, beside;
  std::vector<Messages> beside_attention;  ///< of those, beside attention's kernels alone

  Work step;                   ///< once per step, whatever the micro-batches
  double optimizer_bytes = 0;  ///< read and written by the optimizer, per step
  double optimizer_launches = 0;
  OffloadQuantities offload;
  /// Once per step: after the last backward, and beside it.
  std::vector<Messages> messages, beside_last_backward;
};

/// The phase with the most tensors, the first of equals: a steady step's peak, kernels apart.
const PhaseBytes& largest_tensors(const StageQuantities& stage);

struct Quantities {
  std::vector<StageQuantities> stages;
  double micro_batches = 1;  ///< per step and rank
  double chunks = 1;         ///< parts of the model that a stage has
  double tokens = 0;         ///< of one micro-batch, as many as a rank's kernels have
  Bytes host{};              ///< of what the fullest node's ranks keep in its memory
  Transport transport = Transport::gloo;
  double communicators = 1;  ///< that a rank has, if there are several

  /// What a step of all ranks of one replica is worth, recomputation not counted: 6 N + 12 L a s
  /// per token, a the attention's width. Source: PaLM, arXiv:2204.02311, appendix B.
  double model_flops = 0;
};

/// Quantities of many candidates of one problem. Rows that depend on few axes are kept: a stage's
/// peaks and work, and its flat layout. One thread uses one table.
class QuantityTable {
 public:
  QuantityTable(Problem problem, TargetTraits traits);
  ~QuantityTable();
  QuantityTable(QuantityTable&&) noexcept;
  QuantityTable& operator=(QuantityTable&&) noexcept;

  /// Throws std::logic_error for an axis value that the kernel sets do not express; the target's
  /// rules or its supported axes exclude it before.
  Quantities quantify(const Candidate& candidate);

  /// Stages' peaks and work are not kept any longer: those of one layout are no other layout's.
  void forget_stages();

  const Problem& problem() const;
  const TargetTraits& traits() const;

 private:
  struct Rows;
  std::unique_ptr<Rows> rows_;
};

/// One candidate's. For many, a QuantityTable.
Quantities quantify(const Problem& problem, const TargetTraits& traits, const Candidate& candidate);

}  // namespace planwright::estimator
