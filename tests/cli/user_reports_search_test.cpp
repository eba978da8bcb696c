#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "user_report.h"

/// Which plans there are: what cannot run is refused, and nothing that can is left out.
namespace planwright::testing {
namespace {

/// Of plans that a framework refuses or, worse, runs as something else.
struct Refused {
  const char* report;
  std::string plan;
  const char* words;
};

TEST_F(UserReport, WhatCannotRunIsInvalid) {
  put_model("llama-30b", {{"hidden_size", 6656},
                          {"num_hidden_layers", 60},
                          {"num_attention_heads", 52},
                          {"intermediate_size", 17920}});
  put_model("two-kv", {{"num_key_value_heads", 2}});
  const std::string device = " --device H100-SXM5-80GB --seq 512 ";
  const Refused cases[] = {
      {"UR-075: pytorch/torchtitan#2574",
       "--model two-kv --devices 4 --tp 4 --sp on --global-batch 8 --target torchtitan", "2 key"},
      {"UR-076: deepspeedai/DeepSpeed#3634",
       "--model llama-30b --devices 8 --tp 8 --global-batch 8 --target deepspeed", "52 heads"},
      {"UR-076, of the other targets",
       "--model llama-30b --devices 8 --tp 8 --global-batch 8 --target megatron", "52 heads"},
      {"UR-076, of the other targets",
       "--model llama-30b --devices 8 --tp 8 --global-batch 8 --target builtin", "52 heads"},
      {"UR-077: pytorch/torchtitan#775",
       "--model llama-2-7b --devices 64 --pp 8 --zero 2 --micro-batch 1 --global-batch 32 --target "
       "torchtitan",
       "as many micro-batches as stages"},
      {"UR-078: pytorch/PiPPy#1048",
       "--model llama-2-7b --devices 4 --pp 4 --vpp 2 --schedule interleaved --micro-batch 1 "
       "--global-batch 6 --target megatron",
       "in rounds of pp 4"},
      {"UR-081: NVIDIA/TransformerEngine#1930",
       "--model llama-2-7b --devices 8 --cp 2 --seq 7 --global-batch 8 --target megatron",
       "multiple of 2 x cp 2"},
  };
  for (const Refused& each : cases) {
    const bool has_length = each.plan.find("--seq") != std::string::npos;
    const Told told = estimate(each.plan + (has_length ? " --device H100-SXM5-80GB" : device));
    EXPECT_EQ(told.verdict(), "invalid") << each.report << ": " << told.reason();
    EXPECT_NE(told.reason().find(each.words), std::string::npos)
        << each.report << ": " << told.reason();
  }
}

TEST_F(UserReport, Ur076EveryDivisorIsRight) {
  put_model("llama-30b", {{"hidden_size", 6656},
                          {"num_hidden_layers", 60},
                          {"num_attention_heads", 52},
                          {"intermediate_size", 17920}});
  for (const int tp : {1, 2, 4, 13, 26}) {
    const std::string ranks = std::to_string(tp);
    EXPECT_NE(estimate("--model llama-30b --device H100-SXM5-80GB --devices " + ranks + " --tp " +
                       ranks + " --seq 512 --global-batch 1 --target builtin")
                  .verdict(),
              "invalid")
        << tp;
  }
}

TEST_F(UserReport, Ur079NoLayerIsLeftOut) {  // NVIDIA/Megatron-LM#1304
  put_model("glm", {{"num_hidden_layers", 46}});
  const Told told = estimate(
      "--model glm --device H100-SXM5-80GB --devices 4 --pp 4 --seq 512 --global-batch 8 "
      "--micro-batch 1 --target megatron --zero 0");
  double held = 0;
  for (std::size_t stage = 0; stage < 4; ++stage) held += told.account("parameters", stage) / 2;
  EXPECT_NEAR(held, told.parameters(), 0.001 * told.parameters());
}

TEST_F(UserReport, Ur082ARanksTokensAreAMultipleOf16InFp8) {  // NVIDIA-NeMo/Speech#8869
  const auto told = [&](int seq) {
    return estimate(
        "--model llama-3.2-1b --device H100-SXM5-80GB --devices 2 --cp 2 --global-batch 2 "
        "--target megatron --precision fp8 --seq " +
        std::to_string(seq));
  };
  EXPECT_EQ(told(368).verdict(), "invalid");
  EXPECT_NE(told(368).reason().find("16"), std::string::npos) << told(368).reason();
  EXPECT_EQ(told(384).verdict(), "fits") << told(384).reason();
}

/// Micro-batches of the plans that fit, by one device's share of a step.
std::set<int> fitting_micro_batches(const Json& plans) {
  std::set<int> sizes;
  for (const Json& plan : plans["plans"]) sizes.insert(plan["candidate"]["micro_batch"].get<int>());
  return sizes;
}

TEST_F(UserReport, Ur083And084MicroBatchesAreHeldAgainstTheirOwnLimit) {
  const auto of = [&](int batch) {
    const CommandResult result = run_command(
        {folder_.path()},
        words("plan --json --top 40 --model llama-3.2-1b --device H100-SXM5-80GB --devices 1 --seq "
              "1024 --target hf-trainer --zero 0 --recompute full --attention flash --loss plain "
              "--offload none --global-batch " +
              std::to_string(batch)));
    return fitting_micro_batches(json_lines(result.out).front());
  };
  const std::set<int> expected{1, 2, 3, 4, 6, 8, 12, 16, 24};
  EXPECT_EQ(of(96), expected) << "huggingface/accelerate#3650: not halves of what fails alone";
  EXPECT_EQ(of(192), expected) << "deepspeedai/DeepSpeed#2171: however many make a step";
}

/// A training script that runs out of memory above 100 sequences.
class UserReportProcess : public UserReport {
 protected:
  UserReportProcess() {
    folder_.put_script("train", R"(#!/bin/sh
if [ $1 -gt 100 ]; then echo CUDA out of memory. Tried to allocate 2.00 GiB.; exit 1; fi
printf '{"step_time_s": %d.%03d, "peak_bytes": %d}' \
  $((($1 + 40) / 1000)) $((($1 + 40) % 1000)) $(((96 + 8 * $1) * 1048576)) > "$PLANWRIGHT_REPORT"
)");
  }

  CommandResult tune(const std::string& flags) const {
    return run_command({folder_.path()},
                       words("tune --target command --device cpu --devices 1 --threads 1 --memory "
                             "4GiB --no-benchmark --json " +
                             flags + " -- ./train {micro_batch}"));
  }
};

TEST_F(UserReportProcess, Ur083TheLargestIsNotAHalfOfWhatFails) {  // huggingface/accelerate#3650
  const CommandResult tuned = tune("--probes 12");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_EQ(json_lines(tuned.out).back()["candidate"]["micro_batch"], 96) << tuned.err;
}

TEST_F(UserReportProcess, Ur085And090EachIsTriedOnceAndFailuresAreKept) {
  const CommandResult tuned = tune("--probes 20 --micro-batch 64,128");
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  const Json result = json_lines(tuned.out).back();
  EXPECT_EQ(result["probes"], 2) << "optuna/optuna#2021";
  EXPECT_NE(result["stopped"].get<std::string>().find("nothing is left to try"), std::string::npos);
  EXPECT_EQ(result["dropped"]["out_of_memory"], 1);
  const CommandResult history = run_command({folder_.path()}, words("history list --json"));
  EXPECT_EQ(json_lines(history.out).front()["rows"][0]["trials"],
            Json({{"COMPLETE", 1}, {"PRUNED", 1}}))
      << "NVIDIA/NeMo-Framework-Launcher#10";
}

TEST_F(UserReport, Ur088DeeperModelsHaveNoMorePlans) {  // alpa-projects/alpa#681
  std::set<std::int64_t> counts;
  for (const int layers : {16, 32, 64}) {
    put_model("deep", {{"num_hidden_layers", layers}});
    const CommandResult result = run_command(
        {folder_.path()},
        words("plan --json --top 1 --model deep --device H200-SXM-141GB --devices 16 --seq 1024 "
              "--global-batch 64 --target megatron --vpp 1 --recompute none,full"));
    counts.insert(json_lines(result.out).front()["counted"].get<std::int64_t>());
  }
  EXPECT_EQ(counts.size(), 1u);
}

TEST_F(UserReport, Ur087NothingFitsIsAnAnswer) {  // ai-dynamo/aiconfigurator#456
  const CommandResult result = run_command(
      {folder_.path()},
      words("plan --json --model llama-2-70b --device A10G --devices 2 --seq 4096 --global-batch 8 "
            "--target megatron"));
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.err.empty() && result.out.empty());
}

}  // namespace
}  // namespace planwright::testing
