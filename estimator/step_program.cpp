#include "estimator/step_program.h"

#include <stdexcept>

#include "estimator/apex_program.h"
#include "estimator/fa_program.h"
#include "estimator/hf_program.h"
#include "estimator/lit_program.h"
#include "estimator/runtime_program.h"
#include "estimator/te_program.h"
#include "estimator/torch_program.h"

namespace planwright::estimator {

StepProgram::Head StepProgram::head_in_two(const BlockSpec&) const {
  throw std::logic_error("StepProgram: this kernel set has no backward in two");
}

std::unique_ptr<StepProgram> step_program(const StepShape& shape) {
  if (shape.kernels == KernelSet::transformer_engine) return std::make_unique<TeProgram>(shape);
  if (shape.kernels == KernelSet::transformers) return std::make_unique<HfProgram>(shape);
  if (shape.kernels == KernelSet::torch_modules) return std::make_unique<TorchProgram>(shape);
  if (shape.kernels == KernelSet::flash_attn) return std::make_unique<FaProgram>(shape);
  if (shape.kernels == KernelSet::litgpt) return std::make_unique<LitProgram>(shape);
  if (shape.kernels == KernelSet::apex) return std::make_unique<ApexProgram>(shape);
  return std::make_unique<RuntimeProgram>(shape);
}

}  // namespace planwright::estimator
