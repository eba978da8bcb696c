#include <gtest/gtest.h>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/quantities.h"
#include "launcher/targets/hf_trainer/traits.h"

/// The Trainer's memory on GPUs against peaks that were published, and against what is known to
/// fit.
namespace planwright::targets {
namespace {

struct Run {
  const char* model;
  Job job;
  int devices, micro_batch;
  std::int64_t seq;
  LossKernel loss;
  bool narrow;  ///< weights and states in bf16
  std::vector<std::pair<std::string, std::string>> knobs;
};

Problem problem_of(const Run& run) {
  using enum LoraTarget;
  const TargetTraits& traits = hf_trainer::traits();
  Problem p;
  p.model = estimator::find_model(run.model, "", "");
  p.target = traits.name;
  p.cluster = estimator::preset_cluster(estimator::find_device("A100-SXM4-80GB", "", ""),
                                        run.devices, run.devices);
  p.workload.job = run.job;
  p.workload.seq = run.seq;
  p.workload.global_batch = run.devices * run.micro_batch;
  p.workload.recipe = *traits.recipe(Precision::bf16);
  if (run.narrow) {
    p.workload.recipe = {DType::bf16, DType::bf16, DType::bf16, std::nullopt, DType::bf16, {}};
  }
  if (run.job != Job::finetune) p.model.lora = {16, {q_proj, k_proj, v_proj, o_proj}};
  if (run.job == Job::qlora) {
    p.workload.serving.weights = find_weight_format("nf4-dq", "", "");
  }
  return p;
}

double peak_gib(const Run& run) {
  Candidate c;
  c.dp = run.devices;
  c.zero = run.devices > 1 ? 3 : 0;
  c.micro_batch = run.micro_batch;
  c.recompute.kind = RecomputeKind::full;
  c.loss = run.loss;
  c.knobs = run.knobs;
  const auto stage = estimator::quantify(problem_of(run), hf_trainer::traits(), c).stages.front();
  const Bytes peak = estimator::largest_tensors(stage).tensors.tensors();
  return static_cast<double>(peak.value) / (1 << 30);
}

struct Published {
  Run run;
  double gib;
};

/// foundation-model-stack/fms-acceleration scripts/benchmarks/refs/a100_80gb.csv (transformers
/// 4.48.1) and a100_80gb_liger.csv (4.45.2): allocated peaks, to 0.01 GiB, of which some 0.02 are
/// the matrix library's workspace.
TEST(HfMemory, AgreesWithPublishedPeaks) {
  using enum Job;
  using enum LossKernel;
  const std::pair<std::string, std::string> v4_48{"transformers", "4.48"},
      v4_45{"transformers", "4.45"}, no_autocast{"autocast", "off"}, unsloth{"kernels", "unsloth"},
      dropout{"lora_dropout", "on"}, fsdp1{"engine", "fsdp1"};
  const Published rows[] = {
      {{"mistral-7b", finetune, 1, 4, 4096, plain, true, {v4_48, no_autocast}}, 67.46},
      {{"mistral-7b", finetune, 1, 16, 4096, chunked, true, {v4_45, unsloth}}, 71.85},
      {{"mistral-7b", lora, 1, 4, 4096, plain, false, {v4_48, no_autocast, dropout}}, 24.87},
      {{"mistral-7b", lora, 1, 8, 4096, fused, false, {v4_48, unsloth, no_autocast, dropout}},
       31.93},
      {{"mistral-7b", lora, 2, 4, 4096, plain, false, {fsdp1, v4_48, no_autocast, dropout}}, 20.45},
      {{"llama-3-8b", lora, 1, 8, 4096, fused, false, {v4_45, unsloth, dropout}}, 54.96},
      {{"llama-3-8b", lora, 4, 16, 4096, chunked, false, {fsdp1, v4_45, unsloth, dropout}}, 53.44},
      {{"llama-3-8b", finetune, 4, 8, 4096, chunked, false, {fsdp1, v4_45, unsloth}}, 41.04},
      {{"llama-3-8b", finetune, 4, 8, 4096, fused, false, {fsdp1, v4_45, unsloth}}, 64.22},
      {{"llama-2-70b", qlora, 1, 4, 4096, plain, false, {v4_48, dropout}}, 63.45},
      {{"llama-2-70b", qlora, 2, 2, 4096, plain, false, {fsdp1, v4_48, dropout}}, 43.48},
      {{"santacoder", finetune, 1, 8, 2048, plain, true, {v4_48, no_autocast}}, 14.15},
  };
  for (const Published& row : rows) {
    EXPECT_NEAR(peak_gib(row.run), row.gib, 0.05) << row.run.model << " " << row.run.devices;
  }
}

TEST(HfMemory, SevenBillionParametersInFullDoNotFitOneDeviceOf80GB) {
  EXPECT_GT(peak_gib({"llama-2-7b", Job::finetune, 1, 1, 512, LossKernel::plain, false, {}}), 80);
}

TEST(HfMemory, SevenBillionParametersInFourBitsWithAdaptersFit24GB) {
  EXPECT_LT(peak_gib({"llama-2-7b", Job::qlora, 1, 1, 2048, LossKernel::plain, false, {}}), 12);
}

}  // namespace
}  // namespace planwright::targets
