#pragma once

#include "estimator/step_program.h"

namespace planwright::estimator {

/// The built-in runtime's, docs/runtime.md: estimator/block_script and estimator/step_script.
class RuntimeProgram : public StepProgram {
 public:
  explicit RuntimeProgram(const StepShape& shape) : shape_(shape) {}

  Tensor boundary() const override;
  Tensor ids() const override;
  Tensor targets(const ModelPart& part) const override;
  Script embedding() const override;
  Script embedding_backward() const override;
  Script block(Turn turn, bool keeps_input, const BlockSpec& block) const override;
  Head head(const BlockSpec& last) const override;

 private:
  Chunk chunk(std::int64_t count, std::int64_t rows) const;

  StepShape shape_;
};

}  // namespace planwright::estimator
