#include <gtest/gtest.h>

#include <set>
#include <string>

#include "user_report.h"

/// What plans need of memory.
namespace planwright::testing {
namespace {

const char* const kSeven = "--model llama-2-7b --device A100-SXM4-80GB --seq 64 ";
const char* const kEightRanks = "--devices 8 --global-batch 8 ";

TEST_F(UserReport, Ur001AnOffloadedPlanIsMoreThanItsStates) {  // deepspeedai/DeepSpeed#4527
  const Told told = estimate(
      "--model llama-2-7b --device A100-SXM4-40GB --devices 4 --seq 2048 --micro-batch 1 "
      "--global-batch 40 --target deepspeed --zero 3 --offload optimizer+params --recompute full");
  EXPECT_GT(told.device(), 4 * kGiB) << "DeepSpeed's own estimate, of states alone: 0.49 GiB";
  EXPECT_LT(told.device(), 24 * kGiB) << "21.3 GiB were seen";
  for (const char* account : {"activations", "staging", "context"}) {
    EXPECT_GT(told.account(account), 0) << account;
  }
  EXPECT_EQ(told.account("optimizer"), 0);
}

TEST_F(UserReport, Ur002OnlyWhatIsShardedShrinks) {  // deepspeedai/DeepSpeed#4093
  const std::string plan =
      "--model llama-2-7b --device A100-SXM4-40GB --seq 2048 --micro-batch 1 --target deepspeed "
      "--zero 3 --offload optimizer+params ";
  const double two = estimate(plan + "--devices 2 --global-batch 2").device();
  const double four = estimate(plan + "--devices 4 --global-batch 4").device();
  EXPECT_GT(four, 0.9 * two);
}

TEST_F(UserReport, Ur003ZeroTwoShardsAllButTheWeights) {  // deepspeedai/DeepSpeed#5099
  const Told told =
      estimate(std::string(kSeven) + kEightRanks + "--target deepspeed --zero 2 --grad-dtype fp32");
  const double p = told.parameters();
  EXPECT_NEAR(told.account("parameters") / p, 2, 0.001);
  EXPECT_NEAR(told.account("optimizer") / p, 12.0 / 8, 0.001);
  EXPECT_GE(told.account("gradients") / p, 4.0 / 8);
  EXPECT_LT(told.account("gradients") / p, 4.0 / 8 + 0.1) << "and a bucket on its way";
}

TEST_F(UserReport, Ur004MegatronKeepsEighteenBytes) {  // NVIDIA/Megatron-LM#654
  const std::string plan = std::string(kSeven) + kEightRanks + "--target megatron ";
  const Told whole = estimate(plan + "--zero 0"), sharded = estimate(plan + "--zero 1");
  // Beside them Transformer Engine's gradients of each distinct shape: 0.04 bytes.
  EXPECT_NEAR(whole.states() / whole.parameters(), 18, 0.05);
  EXPECT_NEAR(sharded.states() / sharded.parameters(), 6 + 12.0 / 8, 0.05);
}

TEST_F(UserReport, Ur005EveryCountIsRightForItsOwnSetting) {  // huggingface/accelerate#2659
  const std::string one = std::string(kSeven) + "--devices 1 --global-batch 1 ";
  const auto each = [&](const std::string& plan) {
    const Told told = estimate(plan);
    return told.states() / told.parameters();
  };
  EXPECT_NEAR(each(one + "--target builtin"), 2 + 4 + 4 + 8, 0.01);
  EXPECT_NEAR(each(one + "--target hf-trainer --job finetune"), 4 + 4 + 8, 0.01);
  EXPECT_NEAR(each(one + "--target hf-trainer --job finetune --state-dtype bf16"), 2 + 2 + 4, 0.01)
      << "all in bf16";
}

TEST_F(UserReport, Ur007LogitsFollowTokensAndVocabulary) {  // modelscope/ms-swift#6966
  const std::string plan =
      "--model qwen2.5-7b --device H200-SXM-141GB --devices 8 --target hf-trainer --zero 3 "
      "--recompute full ";
  const Told one = estimate(plan + "--seq 32768 --micro-batch 1 --global-batch 8");
  const Told many = estimate(plan + "--seq 4096 --micro-batch 8 --global-batch 64");
  const double fp32_copy = 32768.0 * 152064 * 4;
  EXPECT_GT(one.account("logits"), 2 * fp32_copy);
  EXPECT_EQ(one.account("logits"), many.account("logits"));
}

TEST_F(UserReport, Ur008CheckpointingLeavesTheLogits) {  // huggingface/trl#156
  const std::string plan =
      "--model gemma-2b --device A100-SXM4-80GB --devices 8 --seq 8192 --global-batch 8 "
      "--target fsdp --zero 3 --recompute ";
  const Told none = estimate(plan + "none"), full = estimate(plan + "full");
  const double bf16_copy = 8192.0 * 256000 * 2;
  EXPECT_EQ(none.account("logits"), full.account("logits"));
  EXPECT_GE(full.account("logits"), bf16_copy + 2 * (2 * bf16_copy))
      << "3.91 GiB, and 7.81 GiB for each copy in fp32";
}

TEST_F(UserReport, Ur009TheLossKernelDecides) {  // huggingface/trl#6858
  const std::string plan =
      "--model qwen2.5-1.5b --device H100-SXM5-80GB --devices 1 --seq 16384 --micro-batch 1 "
      "--global-batch 1 --target hf-trainer --recompute full --job finetune ";
  const double plain = estimate(plan).allocated();
  const double fused = estimate(plan + "--loss fused --knobs kernels=unsloth").allocated();
  const double chunked = estimate(plan + "--loss chunked --knobs kernels=liger").allocated();
  EXPECT_GT(plain, fused);
  EXPECT_GT(fused, chunked);
}

TEST_F(UserReport, Ur010OrdinaryLossesBuildAllLogits) {  // NVIDIA-NeMo/Automodel#3907
  put_model("wide", {{"vocab_size", 201088},
                     {"hidden_size", 2880},
                     {"num_attention_heads", 45},
                     {"num_hidden_layers", 8},
                     {"intermediate_size", 8640}});
  const std::string plan =
      "--model wide --device H100-SXM5-80GB --devices 8 --seq 4096 --global-batch 8 --target "
      "hf-trainer --zero 3 --recompute full ";
  const double copies = (1.53 + 3.07) * kGiB;
  EXPECT_GE(estimate(plan).account("logits"), copies);
  EXPECT_LT(estimate(plan + "--loss chunked --knobs kernels=liger").account("logits"),
            0.1 * copies);
}

TEST_F(UserReport, Ur012GradientsStayWholeWhileTheyAreSummed) {  // huggingface/accelerate#2035
  const std::string plan =
      "--model llama-2-7b --device A40 --devices 8 --seq 512 --micro-batch 1 --target accelerate "
      "--optimizer sgd --zero 3 --recompute full --global-batch ";
  const double more = estimate(plan + "32").allocated() - estimate(plan + "8").allocated();
  EXPECT_GT(more, 8 * kGiB) << "about 10 were seen";
  EXPECT_LT(more, 12.6 * kGiB) << "bf16 of all weights";
}

TEST_F(UserReport, Ur014EveryTokenHasTwoExperts) {  // NVIDIA/Megatron-LM#1784
  const std::string plan =
      " --device H200-SXM-141GB --devices 64 --zero 1 --seq 4096 --micro-batch 1 --global-batch 64 "
      "--target megatron";
  const double dense = estimate("--model mistral-7b" + plan).account("activations");
  const double mixed = estimate("--model mixtral-8x7b" + plan).account("activations");
  const double apart = estimate("--model mixtral-8x7b --ep 8" + plan).account("activations");
  const double mlp = 2.0 * (4096 + 3 * 14336) * 4096 * 32;  // input, both halves, their product
  EXPECT_GT(mixed - dense, mlp);
  EXPECT_LT(mixed - dense, 1.2 * mlp) << "and routing";
  EXPECT_EQ(apart, mixed) << "ranks exchange tokens";
}

TEST_F(UserReport, Ur016StatesAreOfAllExperts) {  // AlexsJones/llmfit#230
  const Told told = estimate(
      "--model mixtral-8x7b --device H200-SXM-141GB --devices 64 --zero 1 --seq 4096 --micro-batch "
      "1 --global-batch 64 --target megatron");
  EXPECT_EQ(told.account("parameters"), 2 * 46702792704.0);
  EXPECT_LT(told.json()["parameters"]["active"].get<double>(), 13e9);
}

TEST_F(UserReport, Ur017MegatronOfA7bOverEightTensorRanks) {  // aliyun/aicb#36
  put_model("aicb", {{"intermediate_size", 10880}});
  const Told told = estimate(
      "--model aicb --device A100-SXM4-80GB --devices 32 --tp 8 --sp on --seq 4096 --micro-batch 1 "
      "--global-batch 64 --target megatron --zero 0");
  EXPECT_LT(told.device(), 21e9) << "nvidia-smi";
  EXPECT_GT(told.device(), 0.8 * 21e9);
}

TEST_F(UserReport, Ur018TwelveBytesWithTwoDataRanks) {  // flagos-ai/FlagScale#454
  const Told told =
      estimate(std::string(kSeven) + "--devices 2 --global-batch 2 --target megatron --zero 1");
  EXPECT_NEAR(told.states() / told.parameters(), 6 + 12.0 / 2, 0.05);
}

TEST_F(UserReport, Ur019ATiedMatrixIsCountedOnceAndHeldTwice) {  // Megatron-DeepSpeed#99
  const Told told = estimate(
      "--model gpt2-xl --device A100-SXM4-80GB --devices 8 --pp 2 --seq 1024 --micro-batch 1 "
      "--global-batch 64 --target builtin --zero 0");
  const double matrix = 50257.0 * 1600;
  const double held = (told.account("parameters", 0) + told.account("parameters", 1)) / 2;
  EXPECT_EQ(told.parameters(), 1557611200);
  EXPECT_NEAR(held, told.parameters() + matrix, 0.001 * matrix);
}

TEST_F(UserReport, Ur020TiedHeadsAreMultipliedAllTheSame) {  // pytorch/torchtitan#3225
  // Of a token, to a peak that both devices have.
  const auto flops = [&](const std::string& model) {
    const Json json = estimate("--model " + model +
                               " --device H100-SXM5-80GB --devices 8 --seq 4096 --global-batch 8 "
                               "--target fsdp --zero 3")
                          .json();
    return json["mfu"].get<double>() / json["tokens_per_second_per_device"].get<double>();
  };
  const double tied = 6 * 1235814400.0 + 12.0 * 16 * 2048 * 4096;
  const double untied = 6 * 8030261248.0 + 12.0 * 32 * 4096 * 4096;
  EXPECT_NEAR(flops("llama-3.2-1b") / flops("llama-3.1-8b"), tied / untied, 1e-6);
}

TEST_F(UserReport, Ur022EachStageHoldsWhatIsOnItsWay) {  // deepspeedai/DeepSpeed#4477
  const Told told = estimate(
      "--model llama-2-7b --device A100-SXM4-80GB --devices 8 --pp 8 --seq 1024 --micro-batch 1 "
      "--global-batch 64 --target builtin --zero 0");
  // Stage i of p keeps min(p - i, m) micro-batches, so that one less is a step of one size.
  const double step = told.account("activations", 1) - told.account("activations", 2);
  for (std::size_t stage = 1; stage < 5; ++stage) {
    EXPECT_NEAR(told.account("activations", stage) - told.account("activations", stage + 1), step,
                0.01 * step)
        << stage;
  }
  EXPECT_GT(told.account("activations", 0), 7 * step);
}

TEST_F(UserReport, Ur024TheFirstOfFourStagesHoldsFour) {  // deepspeedai/DeepSpeed#2800
  const Told told = estimate(
      "--model llama-2-7b --device A100-SXM4-80GB --devices 4 --pp 4 --seq 1024 --micro-batch 1 "
      "--global-batch 8 --target megatron-deepspeed --zero 0");
  const double one = told.account("activations", 2) - told.account("activations", 3);
  for (std::size_t stage = 0; stage < 4; ++stage) {
    EXPECT_NEAR(told.account("activations", stage) / one, 4.0 - static_cast<double>(stage), 0.2)
        << stage;
  }
}

TEST_F(UserReport, Ur025MoreMicroBatchesAreNoMoreMemory) {  // marin-community/marin#6532
  std::set<double> peaks;
  for (const int batch : {8, 16, 32}) {
    peaks.insert(
        estimate("--model llama-2-7b --device H100-SXM5-80GB --devices 8 --pp 8 --seq 1024 "
                 "--micro-batch 1 --target megatron --zero 0 --global-batch " +
                 std::to_string(batch))
            .allocated());
  }
  EXPECT_EQ(peaks.size(), 1u);
}

TEST_F(UserReport, Ur026AStageThatIsTooFullIsThePlan) {  // zero-bubble-pipeline-parallelism#8
  const Told told = estimate(
      "--model llama-2-7b --device A100-SXM4-80GB --memory 21GiB --devices 8 --pp 8 --seq 1024 "
      "--micro-batch 1 --global-batch 64 --target builtin --zero 0");
  EXPECT_EQ(told.verdict(), "too_large");
  EXPECT_LT(told.json()["stages"][4]["allocated_bytes"].get<double>(), 0.9 * 21 * kGiB);
}

TEST_F(UserReport, Ur027AdaptersSaveStatesAndNotActivations) {  // huggingface/peft#2196
  const std::string plan =
      "--model tinyllama-1.1b --device A100-SXM4-80GB --devices 1 --seq 4096 --micro-batch 1 "
      "--global-batch 1 --target hf-trainer ";
  const Told full = estimate(plan + "--job finetune"), lora = estimate(plan + "--job lora");
  EXPECT_LT(lora.account("optimizer"), 0.01 * full.account("optimizer"));
  EXPECT_GT(lora.account("activations"), 0.5 * full.account("activations"));
  const Told more = estimate(plan + "--job lora --lora-targets all-linear --knobs lora_dropout=on");
  EXPECT_GT(more.account("activations"), lora.account("activations"));
}

TEST_F(UserReport, Ur028WhatAnAdapterRunsIsActivations) {  // deepspeedai/DeepSpeedExamples#285
  const Told told = estimate(
      "--model llama-3.2-1b --device A100-SXM4-80GB --devices 1 --seq 512 --job lora --micro-batch "
      "16 --global-batch 16 --target hf-trainer");
  EXPECT_GT(told.account("activations") + told.account("logits"), 0.8 * told.allocated());
}

TEST_F(UserReport, Ur029ScoresAreMostOfWhatIsKept) {  // huggingface/blog#1413
  const std::string plan =
      "--model starcoder --device H200-SXM-141GB --devices 8 --seq 2048 --micro-batch 4 "
      "--global-batch 32 --target megatron --zero 0 --attention ";
  const double flash = estimate(plan + "flash").account("activations");
  const double eager = estimate(plan + "eager").account("activations");
  const double layers = 2048.0 * 4 * 6144 * 40;  // s b h L
  EXPECT_NEAR(flash, layers * (30 - 2), 0.02 * flash) << "two bytes are masks of dropout";
  EXPECT_NEAR(eager - flash, layers * 2 * 48 * 2048 / 6144, 0.02 * eager)
      << "of the report's five bytes dropout has three";
}

TEST_F(UserReport, Ur030FullTuningNeedsMoreThanAdapters) {  // meta-pytorch/torchtune#794
  const std::string plan =
      "--model llama-2-7b --device A100-SXM4-80GB --devices 1 --seq 512 --micro-batch 2 "
      "--global-batch 2 --target hf-trainer --recompute full --state-dtype bf16 ";
  EXPECT_GT(estimate(plan + "--job finetune").allocated(),
            estimate(plan + "--job lora").allocated());
}

TEST_F(UserReport, Ur031KindsOfMemoryAreToldApart) {  // fms-acceleration#14
  const Told told = estimate(
      "--model mistral-7b --device A100-SXM4-80GB --devices 1 --seq 1024 --job lora --micro-batch "
      "4 "
      "--global-batch 4 --target hf-trainer --recompute full");
  const double base = 7241732096.0 * 2;
  EXPECT_GT(told.account("parameters"), base);
  EXPECT_LT(told.account("parameters"), 1.01 * base);
  const double reserved = told.json()["peak"]["reserved_bytes"];
  EXPECT_LT(told.allocated(), reserved);
  EXPECT_LT(reserved, told.device());
}

TEST_F(UserReport, Ur032AttentionAndVocabularyDecide) {  // huggingface/peft#2111
  const std::string plan =
      " --device A100-SXM4-80GB --devices 4 --seq 4096 --micro-batch 1 --global-batch 4 --target "
      "hf-trainer --job lora --zero 3 --attention ";
  const Told flash = estimate("--model gemma-2b" + plan + "flash");
  const Told eager = estimate("--model gemma-2b" + plan + "eager");
  EXPECT_GT(eager.account("activations") - flash.account("activations"), 18 * 2.0 * 8 * 4096 * 4096)
      << "scores of each layer";
  EXPECT_GT(flash.account("logits"), 2 * 4096.0 * 256000 * 4);
  const Told capped = estimate("--model gemma-2-9b" + plan + "flash");
  EXPECT_EQ(capped.verdict(), "invalid") << "its blocks are no others'";
  EXPECT_NE(capped.reason().find("cannot estimate"), std::string::npos) << capped.reason();
}

TEST_F(UserReport, Ur033A70bOnTwoSmallCardsIsTooLarge) {  // axolotl-ai-cloud/axolotl#1522
  const std::string small =
      "--model llama-2-70b --device A10G --devices 2 --seq 512 --job qlora --quant nf4 --lora-rank "
      "32 --lora-targets all-linear --micro-batch 1 --global-batch 2 --target hf-trainer --zero 3 "
      "--recompute full ";
  EXPECT_EQ(estimate(small).verdict(), "too_large");
  EXPECT_EQ(estimate(small + "--offload optimizer+params").verdict(), "fits");
  const Told wide = estimate(
      "--model llama-3.1-70b --device A100-SXM4-80GB --devices 8 --seq 32768 --job qlora --quant "
      "nf4 --micro-batch 1 --global-batch 8 --target hf-trainer --zero 3 --recompute full");
  EXPECT_EQ(wide.verdict(), "too_large");
  EXPECT_GT(wide.account("logits"), 15.6 * kGiB) << "of one fp32 copy";
}

TEST_F(UserReport, Ur034SomeMemoryIsInNoTensor) {  // pytorch/pytorch#28394
  const double one = estimate(std::string(kSeven) + "--devices 1 --global-batch 1 --target fsdp")
                         .account("context");
  const double grouped =
      estimate(std::string(kSeven) + "--devices 2 --global-batch 2 --target fsdp")
          .account("context");
  EXPECT_GT(one, 0.2 * kGiB);
  EXPECT_GT(grouped, one) << "and a group's buffers";
}

TEST_F(UserReport, Ur035TheDevicesCounterSeesMoreThanTheAllocators) {  // vllm-project/vllm#2031
  const Told told =
      estimate(std::string(kSeven) + "--devices 2 --global-batch 2 --target fsdp --zero 3");
  const double reserved = told.json()["peak"]["reserved_bytes"];
  EXPECT_NEAR(told.device() - reserved, told.account("context"), 1);
  EXPECT_EQ(told.verdict(), "fits");
  const double middle = (reserved + told.device()) / 2;
  const std::string between = std::to_string(static_cast<std::int64_t>(middle)) + "B";
  EXPECT_EQ(estimate(std::string(kSeven) +
                     "--devices 2 --global-batch 2 --target fsdp --zero 3 "
                     "--headroom 0% --memory " +
                     between)
                .verdict(),
            "too_large")
      << "by what is outside the allocator";
}

TEST_F(UserReport, Ur037OffloadNeedsTheHostsMemory) {  // deepspeedai/DeepSpeed#4239
  folder_.put("small.toml", "host_memory = \"128GiB\"\n");
  const Told told = estimate(
      "--model llama-2-13b --device A100-SXM4-80GB --devices 8 --seq 512 --global-batch 8 --target "
      "deepspeed --zero 3 --offload optimizer+params --cluster small.toml");
  EXPECT_EQ(told.verdict(), "too_large");
  EXPECT_NE(told.reason().find("node's memory"), std::string::npos) << told.reason();
  EXPECT_GT(told.host(), 18 * 13.0e9);
}

TEST_F(UserReport, Ur038ADiskNeedsBuffersInMemory) {  // deepspeedai/DeepSpeed#3000
  const Told told = estimate(
      "--model llama-2-13b --device A100-SXM4-80GB --devices 8 --seq 512 --global-batch 8 --target "
      "deepspeed --zero 3 --offload optimizer+params --offload-to nvme");
  EXPECT_GT(told.host(), 50 * kGiB);
  const Told memory = estimate(
      "--model llama-2-13b --device A100-SXM4-80GB --devices 8 --seq 512 --global-batch 8 --target "
      "deepspeed --zero 3 --offload optimizer+params");
  EXPECT_LT(told.host(), memory.host());
}

TEST_F(UserReport, Ur039WhatIsThereBeforeTheFirstStepIsALine) {  // pytorch/pytorch#152263
  const Told told = estimate(
      "--model llama-3.1-8b --device A100-SXM4-80GB --devices 4 --seq 512 --micro-batch 1 "
      "--global-batch 4 --target hf-trainer --zero 3");
  const Json first = told.json()["phases"][0];
  EXPECT_EQ(first["phase"], "load");
  // A part of fp32 weights and of both moments: units are cut as they come.
  EXPECT_NEAR(first["allocated_bytes"].get<double>(), 12 * told.parameters() / 4, 1e6);
  EXPECT_LT(first["allocated_bytes"].get<double>(), told.allocated());
  EXPECT_LT(told.allocated(), told.json()["peak"]["reserved_bytes"].get<double>())
      << "which is no need";
}

TEST_F(UserReport, Ur040WeightsThatAreNotWidenedAreHalf) {  // huggingface/accelerate#2674
  const std::string plan =
      "--model llama-2-7b --device H200-SXM-141GB --devices 1 --seq 64 --job finetune "
      "--micro-batch "
      "1 --global-batch 1 --target hf-trainer ";
  const Told wide = estimate(plan), narrow = estimate(plan + "--state-dtype bf16");
  EXPECT_NEAR(wide.states() / wide.parameters(), 16, 0.01);
  EXPECT_NEAR(narrow.states() / narrow.parameters(), 8, 0.01);
}

TEST_F(UserReport, Ur041EachTypeIsAnInputOfItsOwn) {  // verl-project/verl#6526
  const std::string plan = std::string(kSeven) + kEightRanks + "--target megatron --zero 1 ";
  const Told wide = estimate(plan), narrow = estimate(plan + "--grad-dtype bf16");
  EXPECT_NEAR(wide.account("gradients") / wide.parameters(), 4, 0.05);
  EXPECT_LT(narrow.account("gradients") / narrow.parameters(), 2.6)
      << "and one for a step of the optimizer";
  EXPECT_EQ(narrow.account("optimizer"), wide.account("optimizer"));
  const Told moments = estimate(plan + "--state-dtype bf16");
  EXPECT_EQ(moments.verdict(), "invalid") << "fp32 is not passed off as what was asked for";
  EXPECT_NE(moments.reason().find("states in fp32"), std::string::npos) << moments.reason();
}

TEST_F(UserReport, Ur042StatesAreShardedToo) {  // simplescaling/s1#25
  const Told told = estimate(
      "--model qwen2.5-32b --device A100-SXM4-80GB --devices 16 --seq 64 --micro-batch 1 "
      "--global-batch 16 --target fsdp --zero 3");
  // 16 bytes of each, and torch's AdamW makes 4 more while it steps.
  EXPECT_NEAR(told.states() / told.parameters(), (16 + 4) / 16.0, 0.005);
}

TEST_F(UserReport, Ur089AFigureHasAUnitAndAnOrigin) {  // Hsword/Hetu#70
  const auto count = [&](std::int64_t layers) {
    folder_.put("wide/config.json", Json{{"architectures", {"GPT2LMHeadModel"}},
                                         {"model_type", "gpt2"},
                                         {"n_embd", 1024},
                                         {"n_layer", layers},
                                         {"n_head", 16},
                                         {"n_positions", 512},
                                         {"vocab_size", 30522}}
                                        .dump());
    return estimate(
               "--model wide --device A100-SXM4-80GB --devices 1 --seq 512 --global-batch 1 "
               "--target hf-trainer --zero 0")
        .parameters();
  };
  EXPECT_EQ(count(24) - count(23), 12.0 * 1024 * 1024 + 13 * 1024);
  EXPECT_NEAR(4 * (count(24) - count(23)) / (1 << 20), 48.05, 0.005) << "MiB in fp32";
  const CommandResult devices = run_command({folder_.path()}, words("devices --json"));
  const Json listed = json_lines(devices.out).front();
  for (const Json& row : listed["rows"]) {
    EXPECT_FALSE(row["source"].get<std::string>().empty()) << row;
  }
}

/// Arithmetic that everybody knows, of whole programs.
TEST_F(UserReport, SevenBillionInFullNeedsMoreThanOneCard) {
  EXPECT_EQ(
      estimate("--model llama-2-7b --device A100-SXM4-80GB --devices 1 --seq 2048 --micro-batch "
               "1 --global-batch 1 --target hf-trainer --recompute full")
          .verdict(),
      "too_large");
  EXPECT_EQ(
      estimate("--model llama-2-7b --device A10G --devices 1 --seq 2048 --job qlora --quant nf4 "
               "--lora-rank 16 --lora-targets all-linear --micro-batch 1 --global-batch 1 "
               "--target hf-trainer --recompute full")
          .verdict(),
      "fits");
}

TEST_F(UserReport, ZeroOnOneDeviceSavesNothing) {
  const std::string plan = std::string(kSeven) + "--devices 1 --global-batch 1 --target deepspeed ";
  for (const char* zero : {"1", "2", "3"}) {
    const Told told = estimate(plan + "--zero " + zero);
    EXPECT_GE(told.states() / told.parameters(), 16) << zero;
  }
}

TEST_F(UserReport, ThreeDimensionsDivideAsTheyShould) {
  const Told told = estimate(
      "--model llama-2-7b --device H100-SXM5-80GB --devices 32 --tp 2 --pp 4 --dp 4 --zero 1 --seq "
      "64 --micro-batch 1 --global-batch 16 --target builtin");
  // Of the middle stage, whose layers are a quarter of the model's: 2 + 4 whole, 12 over dp.
  const double layers = 32 / 4 * 202383360.0 / 2;
  EXPECT_NEAR(told.account("parameters", 1) / layers, 2, 0.01);
  EXPECT_NEAR(told.account("optimizer", 1) / layers, 12.0 / 4, 0.01);
}

}  // namespace
}  // namespace planwright::testing
