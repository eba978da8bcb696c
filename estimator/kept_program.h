#pragma once

#include <cstddef>
#include <memory>
#include <unordered_map>
#include <vector>

#include "estimator/liveness.h"
#include "estimator/step_program.h"

namespace planwright::estimator {

/// A step program each of whose scripts is made once. Its functions are StepProgram's.
class KeptProgram {
 public:
  using Turn = StepProgram::Turn;
  using Head = StepProgram::HeadOf<Effect>;

  /// `keeps_scripts`: besides what they come to.
  KeptProgram(const StepShape& shape, bool keeps_scripts);

  const StepProgram& program() const { return *program_; }
  const Tensor& boundary() const { return boundary_; }

  const Effect& embedding();
  const Effect& embedding_backward();
  const Effect& block(Turn turn, bool keeps_input, const BlockSpec& block);
  const Head& head(const BlockSpec& last);
  const Head& head_in_two(const BlockSpec& last);

 private:
  /// Most blocks of a model are alike.
  struct Block {
    Turn turn;
    bool keeps_input;
    BlockSpec block;
    Effect effect;
  };
  struct KnownHead {
    BlockSpec last;
    Head head;
  };

  Effect kept(Script script) const;
  Head kept(const StepProgram::Head& head) const;
  const Head& known(std::vector<std::unique_ptr<const KnownHead>>& heads, const BlockSpec& last,
                    StepProgram::Head (StepProgram::*made)(const BlockSpec&) const);

  std::unique_ptr<const StepProgram> program_;
  Tensor boundary_;
  bool page_locks_, keeps_scripts_;
  std::unique_ptr<const Effect> embedding_, embedding_backward_;
  std::vector<std::unique_ptr<const Block>> blocks_;
  std::vector<std::unique_ptr<const KnownHead>> heads_, heads_in_two_;
};

/// Programs of the shapes that were asked for. One thread uses one.
class KeptPrograms {
 public:
  explicit KeptPrograms(bool keeps_scripts = false) : keeps_scripts_(keeps_scripts) {}

  /// Valid as long as this is.
  KeptProgram& of(const StepShape& shape);

 private:
  /// Over what differs from one candidate of a problem to the next.
  struct Hash {
    std::size_t operator()(const StepShape& shape) const;
  };

  bool keeps_scripts_;
  std::unordered_map<StepShape, KeptProgram, Hash> programs_;
};

}  // namespace planwright::estimator
