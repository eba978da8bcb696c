#include <gtest/gtest.h>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/quantities.h"
#include "estimator/spec/lora.h"
#include "launcher/targets/pytorch/traits.h"

/// litgpt's memory on one GPU against peaks that were published.
namespace planwright::targets::pytorch {
namespace {

using Targets = std::vector<LoraTarget>;

struct Case {
  const char* model;
  const char* quant;  ///< of the frozen base; empty: bf16
  int rank;
  Targets targets;  ///< none: every linear matrix
  int micro_batch;
  std::int64_t seq;
  double gib;
};

Problem problem_of(const Case& run) {
  Problem p;
  p.model = estimator::find_model(run.model, "", "");
  p.target = traits().name;
  p.cluster = estimator::preset_cluster(estimator::find_device("A100-SXM4-40GB", "", ""), 1, 1);
  p.workload.job = *run.quant == '\0' ? Job::lora : Job::qlora;
  p.workload.seq = run.seq;
  p.workload.global_batch = 4 * run.micro_batch;
  p.workload.recipe = *traits().recipe(Precision::bf16);
  p.model.tied_embeddings = false;
  p.model.lora = {run.rank, run.targets.empty() ? all_linear(p.model.block(0)) : run.targets};
  if (*run.quant != '\0') p.workload.serving.weights = find_weight_format(run.quant, "", "");
  return p;
}

double peak_gib(const Case& run) {
  Candidate c;
  c.micro_batch = run.micro_batch;
  c.knobs = {{"litgpt", "0.4"}};
  const auto stage = estimator::quantify(problem_of(run), traits(), c).stages.front();
  return gib(estimator::largest_tensors(stage).tensors.tensors());
}

/// Of the longest sample. Lightning-AI/litgpt tutorials/resource-tables.md @ 0cc02afa and
/// config_hub/finetune/README.md @ v0.5.9, in GiB; the library's workspace is in them.
TEST(PytorchMemory, AgreesWithPublishedPeaks) {
  const Targets qv{LoraTarget::q_proj, LoraTarget::v_proj};
  const Case rows[] = {
      {"phi-1.5", "", 8, qv, 1, 1044, 4.49},
      {"phi-1.5", "", 8, qv, 2, 1044, 6.30},
      {"phi-1.5", "", 8, qv, 4, 1044, 9.95},
      {"llama-2-13b", "", 8, qv, 1, 1304, 35.50},
      {"stablelm-base-alpha-3b", "", 8, qv, 2, 1034, 11.27},
      {"stablelm-base-alpha-3b", "nf4", 8, qv, 1, 1034, 5.91},
      {"mistral-7b", "", 32, qv, 2, 512, 19.24},
      {"phi-2", "", 8, {}, 4, 512, 13.02},
      {"phi-3-mini-4k", "", 8, {}, 4, 512, 18.39},
      {"tinyllama-1.1b", "", 32, {}, 8, 512, 12.57},
  };
  for (const Case& row : rows) {
    EXPECT_NEAR(peak_gib(row) / row.gib, 1, 0.012) << row.model << " " << row.micro_batch;
  }
}

/// Over four devices each block's flat gradient is whole, frozen as most of it is: without them it
/// would be a third of what was published.
TEST(PytorchMemory, HasWholeGradientsOfShardedBlocks) {
  const Case row{"llama-2-13b", "", 8, {LoraTarget::q_proj, LoraTarget::v_proj}, 1, 1304, 33.13};
  Problem p = problem_of(row);
  p.cluster = estimator::preset_cluster(estimator::find_device("A100-SXM4-40GB", "", ""), 4, 4);
  p.workload.global_batch = 128;
  Candidate c = {.dp = 4, .zero = 3, .micro_batch = 1};
  c.recompute.kind = RecomputeKind::full;
  c.knobs = {{"litgpt", "0.4"}};
  const auto stage = estimator::quantify(p, traits(), c).stages.front();
  EXPECT_NEAR(gib(estimator::largest_tensors(stage).tensors.tensors()) / row.gib, 1, 0.04);
}

/// Two to four per cent are missing, of which a block that the allocator does not cut up is a part.
TEST(PytorchMemory, IsSomewhatLowForModelsIn4Bits) {
  const Targets qv{LoraTarget::q_proj, LoraTarget::v_proj};
  const Case rows[] = {{"llama-2-7b", "nf4", 8, qv, 1, 1304, 13.17},
                       {"llama-2-7b", "nf4-dq", 8, qv, 1, 1304, 12.89},
                       {"llama-2-13b", "nf4", 8, qv, 1, 1304, 21.55}};
  for (const Case& row : rows) {
    EXPECT_LT(peak_gib(row), row.gib) << row.model;
    EXPECT_GT(peak_gib(row), 0.97 * row.gib) << row.model;
  }
}

}  // namespace
}  // namespace planwright::targets::pytorch
