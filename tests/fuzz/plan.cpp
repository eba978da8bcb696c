#include <iterator>

#include "choices.h"
#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "launcher/plan_file.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"

/// A plan file with a few values changed, and its estimate: nothing overflows, and what is given
/// out is finite.
namespace planwright {

launcher::PlanFile plan_of(const ModelSpec& model) {
  launcher::PlanFile plan;
  plan.problem = testing::fake_problem(model, 2, Precision::bf16);
  plan.problem.target = targets::builtin::traits().name;
  plan.candidate = testing::data_parallel(2, 1, 2);
  return plan;
}

/// One with adapters, and kernels and blocks that others have not.
launcher::PlanFile plan_with_techniques() {
  ModelSpec model = testing::tiny_llama();
  model.lora = {4, {LoraTarget::q_proj, LoraTarget::gate_up_proj}};
  model.runs.front().block.qk_norm = true;
  model.runs.front().block.sliding_window = 4;
  launcher::PlanFile plan = plan_of(model);
  plan.problem.workload.job = Job::lora;
  plan.problem.workload.attention_dropout = 0.1;
  plan.candidate.attention = AttentionKernel::eager;
  plan.candidate.loss = LossKernel::chunked;
  return plan;
}

void check_estimate(const launcher::PlanFile& plan) {
  const TargetTraits& traits = targets::builtin::traits();
  const Calibration prior = estimator::prior_calibration(plan.problem, traits, std::nullopt);
  const Estimate estimate = estimator::estimate(plan.problem, traits, plan.candidate, prior);
  if (estimate.verdict == Verdict::invalid) return;
  fuzz::require(estimate.peak().accounts.allocated().value >= 0);
  fuzz::require(estimate.step_time.value > 0);
  fuzz::require(estimate.fit_probability >= 0 && estimate.fit_probability <= 1);
}

}  // namespace planwright

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planwright;
  static const Json kPlans[] = {launcher::to_json(plan_of(testing::tiny_llama())),
                                launcher::to_json(plan_of(testing::tiny_gpt())),
                                launcher::to_json(plan_with_techniques())};
  fuzz::Choices choices(data, size);
  const Json json = fuzz::changed(kPlans[choices.byte() % std::size(kPlans)], choices);
  fuzz::refused_or_fine([&] { check_estimate(launcher::plan_file_from_json(json, "fuzz")); });
  return 0;
}
