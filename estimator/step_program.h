#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "estimator/liveness.h"
#include "estimator/spec/model_part.h"
#include "estimator/step_shape.h"

namespace planwright::estimator {

/// What a kernel set makes and drops in the turns that a stage's step consists of, on one rank. A
/// turn's input and output, and their gradients, go from script to script as they come: x is made
/// by one turn and dropped by the one that is the last to need it.
class StepProgram {
 public:
  enum class Turn {
    forward_kept,
    forward_dropped,
    rebuild,
    rebuild_and_backward,
    backward,
    // A backward in two, of which the first leaves the gradients of weights to the second; and what
    // goes when a stage's last weight has had its turn.
    backward_of_input,
    backward_of_weights,
    rest_of_backward
  };

  virtual ~StepProgram() = default;

  /// Between stages: a stage's input and output, and the gradients of them.
  virtual Tensor boundary() const = 0;

  /// What a micro-batch is given, on the first stage and on the last one.
  virtual Tensor ids() const = 0;
  virtual Tensor targets(const ModelPart& part) const = 0;

  /// What a stage keeps of a micro-batch besides, from its forward to the end of its backward.
  virtual Tensor kept(const ModelPart&) const { return {}; }

  /// Makes x.
  virtual Script embedding() const = 0;
  /// Drops the gradient of x.
  virtual Script embedding_backward() const = 0;

  /// A block's turn. `keeps_input`: a forward leaves x for a later turn, whatever its state.
  virtual Script block(Turn turn, bool keeps_input, const BlockSpec& block) const = 0;

  /// From the last block's output to its gradient. `before`: the final norm, and what comes before
  /// the first logits.
  template <class Part>
  struct HeadOf {
    /// Of `count` equal chunks of logits: made, to their loss, to their gradient, back through the
    /// head's product, and on.
    struct Chunk {
      std::int64_t count = 1;
      Part forward, loss, loss_backward, product_backward, backward;
    };
    Part before;
    std::vector<Chunk> chunks;
    Part after;
    Part weights;  ///< of a backward in two, the second part
  };
  using Head = HeadOf<Script>;
  using Chunk = Head::Chunk;
  /// After a block like `last`.
  virtual Head head(const BlockSpec& last) const = 0;
  /// The same, with its backward in two. Throws std::logic_error where a kernel set has none.
  virtual Head head_in_two(const BlockSpec& last) const;

  /// Whether the scripts make and drop the gradients of weights, which then come after the turn
  /// that makes them; else before it.
  virtual bool makes_gradients() const { return false; }

  /// Whether the gradient that a stage has sent stays until its next backward has made another.
  virtual bool keeps_sent_gradient() const { return false; }

  /// What the first micro-batch makes and nobody drops.
  virtual Script resident(const ModelPart&) const { return {}; }
};

/// That of shape.kernels.
std::unique_ptr<StepProgram> step_program(const StepShape& shape);

}  // namespace planwright::estimator
