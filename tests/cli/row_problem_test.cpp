#include "cli/row_problem.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "cli/row_words.h"
#include "cli/targets.h"
#include "estimator/devices.h"
#include "rows.h"
#include "tests/support/fault.h"

/// What a row of a published table is taken for.
namespace planwright::testing {
namespace {

TEST(RowProblem, HasWhatTheRowSays) {
  const cli::RowProblem made = problem_with({{"gpus_per_node", "4"}, {"grad_accum", "4"}});
  const Problem& problem = made.one.input.problem;
  EXPECT_EQ(problem.target, "fsdp");
  EXPECT_EQ(problem.cluster.device.name, "A100-SXM4-80GB");
  EXPECT_EQ(problem.cluster.devices(), 8);
  EXPECT_EQ(problem.cluster.per_node, 4);
  EXPECT_EQ(problem.workload.seq, 2048);
  EXPECT_EQ(problem.workload.global_batch, 64);
  EXPECT_EQ(problem.workload.precision, Precision::bf16);
  EXPECT_EQ(problem.workload.headroom.fraction, 0);
  const Candidate& candidate = made.one.candidate;
  EXPECT_EQ(candidate.dp, 8);
  EXPECT_EQ(candidate.zero, 3);
  EXPECT_EQ(candidate.micro_batch, 2);
  EXPECT_EQ(candidate.attention, AttentionKernel::flash);
}

TEST(RowProblem, SaysWhatWasAssumed) {
  const cli::RowProblem made = problem_with({});
  for (const char* what : {"tp 1", "dp 8", "grad_accum 1", "optimizer adamw", "recompute none",
                           "offload none", "flash 1", "global_batch 16"}) {
    EXPECT_TRUE(assumes(made, what)) << what;
  }
  EXPECT_FALSE(assumes(made, "zero 3"));
  EXPECT_TRUE(assumes(problem_with({{"zero", ""}}), "zero 3"));
  EXPECT_TRUE(assumes(problem_with({{"compile", "1"}}), "compile changes nothing"));
}

/// What a target does where its rows say nothing is in a table.
TEST(RowProblem, AssumesWhatTheTargetsScriptsDo) {
  const cli::RowProblem bloom = problem_with({{"framework", "megatron-deepspeed"},
                                              {"precision", ""},
                                              {"zero", ""},
                                              {"flash", ""},
                                              {"vocab", ""},
                                              {"act", "gelu"}});
  for (const char* what : {"precision fp16", "zero 1", "flash 0", "vocab 50257",
                           "hidden_dropout 0.1", "attention_dropout 0.1"}) {
    EXPECT_TRUE(assumes(bloom, what)) << what;
  }
  const Problem& problem = bloom.one.input.problem;
  EXPECT_EQ(problem.workload.precision, Precision::fp16);
  EXPECT_DOUBLE_EQ(problem.workload.attention_dropout, 0.1);
  EXPECT_EQ(bloom.one.candidate.attention, AttentionKernel::eager);
  EXPECT_EQ(spec_with({}).workload.hidden_dropout, 0);
}

TEST(RowProblem, KnowsThatLitgptTiesNoHead) {
  const Cells falcon{{"framework", "litgpt"},
                     {"model", "falcon-7b"},
                     {"layers", ""},
                     {"hidden", ""},
                     {"heads", ""},
                     {"kv_heads", ""},
                     {"ffn", ""},
                     {"vocab", ""},
                     {"tied", ""}};
  EXPECT_TRUE(assumes(problem_with(falcon), "tied_always 0"));
  EXPECT_FALSE(spec_with(falcon).model.tied_embeddings);
  EXPECT_EQ(candidate_with(falcon).knobs,
            (std::vector<std::pair<std::string, std::string>>{{"litgpt", "0.4"}}));
  Cells elsewhere = falcon;
  elsewhere["framework"] = "fsdp";
  EXPECT_TRUE(spec_with(elsewhere).model.tied_embeddings);
}

TEST(RowProblem, DoesNotDependOnWhatWasMeasured) {
  const Problem plain = spec_with({});
  const Problem measured = spec_with({{"peak_mem_gib", "12"},
                                      {"mem_kind", "reserved"},
                                      {"outcome", "oom"},
                                      {"tokens_s_gpu", "100"},
                                      {"step_time_s", "3"},
                                      {"notes", "anything"}});
  EXPECT_EQ(plain, measured);
}

TEST(RowProblem, TakesTheAxesOfTheRow) {
  EXPECT_EQ(candidate_with({{"framework", "torchtitan"}, {"tp", "2"}, {"pp", "2"}}).dp, 2);
  EXPECT_EQ(candidate_with({{"framework", "torchtitan"}, {"tp", "2"}, {"sp", "1"}}).sp, true);
  EXPECT_EQ(candidate_with({{"vpp", "2"}, {"pp", "2"}}).schedule, Schedule::interleaved);
  EXPECT_EQ(candidate_with({{"ep", "4"}}).ep, 4);
  EXPECT_EQ(candidate_with({{"cp", "2"}}).cp, 2);
  EXPECT_EQ(candidate_with({{"flash", "0"}}).attention, AttentionKernel::eager);
  EXPECT_EQ(recompute_text(candidate_with({{"recompute", "full"}}).recompute), "full");
  EXPECT_EQ(recompute_text(candidate_with({{"recompute", "layers:8"}}).recompute), "first:8");
  EXPECT_EQ(recompute_text(candidate_with({{"recompute", "selective"}}).recompute), "selective");
  const Cells operators{{"framework", "torchtitan"}, {"recompute", "selective"}};
  EXPECT_EQ(recompute_text(candidate_with(operators).recompute), "op");
  EXPECT_EQ(offload_text(candidate_with({{"offload", "param+optimizer"}}).offload),
            "optimizer+params");
  EXPECT_EQ(offload_text(candidate_with({{"offload", "activation"}}).offload), "activations");
}

/// Where a framework logs memory on one rank only, a published peak is that one's.
TEST(RowProblem, KnowsTheStageThatAPeakIsOf) {
  const auto stage = [](Cells cells) {
    cells.insert({{"framework", "megatron"}, {"pp", "2"}});
    return problem_with(cells).peak_of;
  };
  EXPECT_EQ(stage({}), cli::PeakOf::any);
  EXPECT_EQ(stage({{"framework_version", "golden values of June"}}), cli::PeakOf::last);
  EXPECT_EQ(stage({{"framework_version", "golden values of June"}, {"peak_of", "first"}}),
            cli::PeakOf::first);
  const Cells two{{"framework", "megatron"}, {"pp", "2"}};
  EXPECT_TRUE(assumes(problem_with(two), "peak_of any"));
  EXPECT_FALSE(assumes(problem_with({}), "peak_of any"));
}

TEST(RowProblem, FindsTheThirdOfThreeNumbers) {
  EXPECT_EQ(candidate_with({{"n_gpus", ""}, {"dp", "4"}}).dp, 4);
  EXPECT_EQ(spec_with({{"n_gpus", ""}, {"dp", "4"}}).cluster.devices(), 4);
  const Cells batch{{"micro_batch", ""}, {"global_batch", "64"}, {"grad_accum", "4"}};
  EXPECT_EQ(candidate_with(batch).micro_batch, 2);
  EXPECT_EQ(spec_with({{"global_batch", "64"}}).workload.global_batch, 64);
}

TEST(RowProblem, TakesTheJobFromTheAdapters) {
  EXPECT_EQ(spec_with({}).workload.job, Job::pretrain);
  const Cells lora{{"lora_rank", "16"}, {"lora_targets", "q,v,o"}};
  EXPECT_EQ(spec_with(lora).workload.job, Job::lora);
  EXPECT_EQ(spec_with(lora).model.lora.rank, 16);
  EXPECT_EQ(spec_with(lora).model.lora.targets.size(), 3u);
  Cells qlora = lora;
  qlora["quant"] = "nf4-dq";
  EXPECT_EQ(spec_with(qlora).workload.job, Job::qlora);
  const Cells all{{"lora_rank", "8"}, {"lora_targets", "all-linear"}};
  EXPECT_EQ(spec_with(all).model.lora.targets.size(), 7u);
}

/// peft's preparation of a quantised model turns checkpointing on.
TEST(RowProblem, RecomputesWhereAQuantisedModelIsPrepared) {
  Cells cells{
      {"framework", "hf-trainer"}, {"zero", "0"}, {"lora_rank", "16"}, {"lora_targets", "q"}};
  EXPECT_EQ(candidate_with(cells).recompute.kind, RecomputeKind::none);
  cells["quant"] = "nf4";
  EXPECT_EQ(candidate_with(cells).recompute.kind, RecomputeKind::full);
  cells["recompute"] = "none";
  EXPECT_EQ(candidate_with(cells).recompute.kind, RecomputeKind::none);
}

TEST(RowProblem, TakesTypesThatTheTargetMayHaveAlready) {
  EXPECT_EQ(spec_with({{"grad_dtype", "float32"}}).workload.recipe.gradient, DType::fp32);
  const PrecisionRecipe usual = spec_with({}).workload.recipe;
  ASSERT_EQ(usual.storage, DType::fp32);
  EXPECT_EQ(spec_with({{"master_dtype", "fp32"}}).workload.recipe, usual);
}

TEST(RowProblem, TakesTheDeviceOfTheStatedMemory) {
  const auto device = [](const char* gpu, const char* gigabytes) {
    return spec_with({{"gpu", gpu}, {"gpu_mem_gb", gigabytes}}).cluster.device.name;
  };
  EXPECT_EQ(device("A100", "80"), "A100-PCIE-80GB");
  EXPECT_EQ(device("A100", "40"), "A100-PCIE-40GB");
  EXPECT_EQ(device("H100-80GB-SXM", ""), "H100-SXM5-80GB");
  EXPECT_TRUE(assumes(problem_with({{"gpu", "A100"}, {"gpu_mem_gb", "80"}}), "gpu A100-PCIE-80GB"));
}

TEST(RowProblem, JudgesNothingOfMemoryThatNobodyNames) {
  EXPECT_TRUE(problem_with({}).memory_known);
  EXPECT_FALSE(problem_with({{"gpu", "A100"}}).memory_known);
  const cli::RowProblem unnamed = problem_with({{"gpu", ""}});
  EXPECT_FALSE(unnamed.memory_known);
  EXPECT_TRUE(assumes(unnamed, "nothing of the devices' memory"));
  const cli::RowProblem sized = problem_with({{"gpu", ""}, {"gpu_mem_gb", "24"}});
  EXPECT_TRUE(sized.memory_known);
  EXPECT_EQ(sized.one.input.problem.cluster.device.memory, Bytes{std::int64_t{24} << 30});
}

/// The base under the Trainer.
Cells trained_with(Cells changed) {
  changed.emplace("framework", "hf-trainer");
  changed.emplace("zero", "0");
  return changed;
}

TEST(RowRecipe, UpdatesWeightsInTheTypeThatTheyAreLoadedIn) {
  const cli::RowProblem made = problem_with(trained_with({}));
  const PrecisionRecipe narrow{DType::bf16, DType::bf16, DType::bf16, std::nullopt, DType::bf16};
  EXPECT_EQ(made.one.input.problem.workload.recipe, narrow);
  EXPECT_TRUE(assumes(made, "master_dtype none"));
  EXPECT_EQ(made.one.candidate.knobs,
            (std::vector<std::pair<std::string, std::string>>{{"autocast", "off"}}));
}

TEST(RowRecipe, KeepsFp32WhereTheRowOrItsFrameworkDoes) {
  const auto storage = [](const Cells& changed) {
    return spec_with(trained_with(changed)).workload.recipe.storage;
  };
  EXPECT_EQ(storage({{"master_dtype", "fp32"}}), DType::fp32);
  EXPECT_EQ(storage({{"precision", "fp16"}}), DType::fp32);
  EXPECT_EQ(storage({{"framework", "fsdp"}, {"zero", "3"}}), DType::fp32);
  EXPECT_EQ(storage({{"lora_rank", "8"}, {"lora_targets", "q,v"}}), DType::fp32);
  const PrecisionRecipe zero = spec_with({{"framework", "hf-trainer + deepspeed"}}).workload.recipe;
  EXPECT_EQ(zero.state, DType::fp32);
}

TEST(RowRecipe, HasPeftsRankWhereAdaptersHaveNone) {
  const cli::RowProblem made = problem_with(trained_with({{"lora_targets", "q,v"}}));
  EXPECT_EQ(made.one.input.problem.model.lora.rank, 8);
  EXPECT_TRUE(assumes(made, "lora_rank 8"));
}

TEST(RowRecipe, TakesTheKernelsThatTheRowNames) {
  const Candidate mixed = candidate_with(trained_with({{"kernels", "unsloth+liger"}}));
  EXPECT_EQ(mixed.loss, LossKernel::chunked);
  EXPECT_EQ(std::count(mixed.knobs.begin(), mixed.knobs.end(),
                       std::pair<std::string, std::string>("kernels", "unsloth")),
            1);
  const Candidate candidate = candidate_with(trained_with({{"kernels", "liger"}}));
  EXPECT_EQ(candidate.loss, LossKernel::chunked);
  EXPECT_EQ(std::count(candidate.knobs.begin(), candidate.knobs.end(),
                       std::pair<std::string, std::string>("kernels", "liger")),
            1);
}

TEST(RowRecipe, DropsWhatTransformersConfiguresForTheFamily) {
  const cli::RowProblem made = problem_with(trained_with({{"model", "gpt2"},
                                                          {"layers", "12"},
                                                          {"hidden", "768"},
                                                          {"heads", "12"},
                                                          {"kv_heads", "12"},
                                                          {"ffn", "3072"},
                                                          {"vocab", "50257"},
                                                          {"tied", "1"},
                                                          {"seq_len", "512"},
                                                          {"act", "gelu"}}));
  EXPECT_EQ(made.one.input.problem.workload.hidden_dropout, 0.1);
  EXPECT_EQ(made.one.input.problem.workload.attention_dropout, 0.1);
  EXPECT_TRUE(assumes(made, "dropout 0.1, of attention 0.1"));
  EXPECT_EQ(spec_with(trained_with({})).workload.hidden_dropout, 0);
  EXPECT_EQ(spec_with({{"act", "gelu"}}).workload.hidden_dropout, 0);
}

struct Skipped {
  const char* name;
  Cells changed;
  const char* reason;  ///< its beginning
};

void PrintTo(const Skipped& each, std::ostream* out) { *out << each.name; }

class SkippedRow : public ::testing::TestWithParam<Skipped> {};

TEST_P(SkippedRow, SaysWhy) {
  const InputFault fault = fault_of([] { problem_with(GetParam().changed); });
  const std::string reason = InputError(fault).what();
  EXPECT_TRUE(reason.starts_with(GetParam().reason)) << reason;
}

const Skipped kSkipped[] = {
    {"Framework", {{"framework", ""}}, "missing column: framework"},
    {"Gpus", {{"n_gpus", ""}}, "missing column: n_gpus"},
    {"Length", {{"seq_len", ""}}, "missing column: seq_len"},
    {"MicroBatch", {{"micro_batch", ""}}, "missing column: micro_batch"},
    {"MicroBatchOfOne",
     {{"micro_batch", ""}, {"global_batch", "8"}},
     "missing column: micro_batch"},
    {"Precision", {{"precision", ""}}, "missing column: precision"},
    {"Layers", {{"layers", ""}}, "missing column: layers"},
    {"Hidden", {{"hidden", ""}}, "missing column: hidden"},
    {"Heads", {{"heads", ""}}, "missing column: heads"},
    {"Width", {{"ffn", ""}}, "missing column: ffn"},
    {"Vocabulary", {{"vocab", ""}}, "missing column: vocab"},
    {"Tied", {{"tied", ""}}, "missing column: tied"},
    {"Activation", {{"act", ""}}, "missing column: act"},
    {"TopK", {{"experts", "8"}}, "missing column: topk"},
    {"LoraRank", {{"lora_targets", "q,v"}}, "missing column: lora_rank"},
    {"RankOfQuantised", {{"quant", "nf4"}}, "missing column: lora_rank"},
    {"LoraTargets", {{"lora_rank", "8"}}, "missing column: lora_targets"},
    {"UnstatedTargets",
     {{"lora_rank", "8"}, {"lora_targets", "unstated"}},
     "missing column: lora_targets"},
    {"UnknownTarget",
     {{"framework", "colossalai"}},
     "framework = colossalai: is not a target of this version"},
    {"UnknownGpu", {{"gpu", "TPU v5"}}, "gpu = TPU v5: is not a device"},
    {"UnknownOptimizer", {{"optimizer", "muon"}}, "optimizer = muon: must be one of adamw"},
    {"UnknownPrecision", {{"precision", "nvfp4"}}, "precision = nvfp4: must be one of fp64"},
    {"UnknownActivation", {{"act", "mish"}}, "act = mish: must be one of swiglu"},
    {"UnknownRecompute", {{"recompute", "some"}}, "recompute = some: "},
    {"UnknownOffload", {{"offload", "weights"}}, "offload = weights: "},
    {"UnknownModule",
     {{"lora_rank", "8"}, {"lora_targets", "q,experts"}},
     "lora_targets = experts: must be some of q_proj"},
    {"UnknownQuant",
     {{"lora_rank", "8"}, {"lora_targets", "q"}, {"quant", "aqlm-2bit"}},
     "quant = aqlm-2bit: must be one of none, nf4"},
    {"MasterType", {{"master_dtype", "bf16"}}, "master_dtype = bf16: must be fp32"},
    {"PrecisionOfTarget",
     {{"precision", "fp8"}},
     "precision = fp8: is not a precision of target fsdp"},
    {"HeadsDoNotDivide", {{"heads", "31"}}, "heads = 31: must divide hidden 4096"},
    {"RanksAndDevices", {{"dp", "4"}}, "n_gpus = 8: is not tp 1 x pp 1 x cp 1 x dp 4"},
    {"DegreesAndDevices", {{"tp", "3"}}, "n_gpus = 8: is not tp 3 x pp 1 x cp 1 x dp 2"},
    {"MoreDegreesThanDevices", {{"tp", "16"}}, "n_gpus = 8: is not tp 16 x pp 1 x cp 1 x dp 0"},
    {"BatchDoesNotGoUp",
     {{"global_batch", "64"}, {"grad_accum", "3"}},
     "grad_accum = 3: x micro_batch 2 x dp 8 is not global_batch 64"},
    {"NodesAreNotWhole", {{"gpus_per_node", "3"}}, "gpus_per_node = 3: must divide n_gpus 8"},
};

INSTANTIATE_TEST_SUITE_P(Rows, SkippedRow, ::testing::ValuesIn(kSkipped),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace planwright::testing
