#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "command.h"
#include "tests/support/test_folder.h"

/// Reports of users whose planner or framework gave them a wrong figure, with the right one: where
/// each was reported stands beside its test (UR: the number in the list they were taken from).
namespace planwright::testing {
namespace {

constexpr double kGiB = 1073741824.0;

/// What `estimate` says of a plan.
class Told {
 public:
  Told(Json json, std::string err) : json_(std::move(json)), err_(std::move(err)) {}

  std::string verdict() const { return json_.is_object() ? json_["verdict"] : Json("none"); }
  std::string reason() const { return json_.is_object() ? json_["reason"] : Json(err_); }
  double parameters() const { return json_["parameters"]["total"]; }
  double account(const std::string& name, std::size_t stage = 0) const {
    return json_["stages"][stage]["accounts"][name];
  }
  double states() const {
    return account("parameters") + account("gradients") + account("optimizer");
  }
  double allocated() const { return json_["peak"]["allocated_bytes"]; }
  double device() const { return json_["peak"]["device_bytes"]; }
  double host() const { return json_["host_bytes"]; }
  const Json& json() const { return json_; }

 private:
  Json json_;
  std::string err_;
};

class UserReport : public ::testing::Test {
 protected:
  Told estimate(const std::string& line) {
    const CommandResult result = run_command({folder_.path()}, words("estimate --json " + line));
    const auto documents = json_lines(result.out);
    return {documents.empty() ? Json() : documents.front(), result.err};
  }

  /// A Llama-like model of these sizes, in a folder of that name.
  void put_model(const std::string& name, const std::map<std::string, std::int64_t>& sizes) {
    Json config{{"architectures", {"LlamaForCausalLM"}},
                {"model_type", "llama"},
                {"hidden_size", 4096},
                {"num_hidden_layers", 32},
                {"num_attention_heads", 32},
                {"intermediate_size", 11008},
                {"vocab_size", 32000},
                {"max_position_embeddings", 4096},
                {"rms_norm_eps", 1e-6},
                {"hidden_act", "silu"},
                {"tie_word_embeddings", false}};
    for (const auto& [key, size] : sizes) config[key] = size;
    folder_.put(name + "/config.json", config.dump());
  }

  const TestFolder folder_;
};

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

TEST_F(UserReport, Ur040WeightsThatAreNotWidenedAreHalf) {  // huggingface/accelerate#2674
  const std::string plan =
      "--model llama-2-7b --device H200-SXM-141GB --devices 1 --seq 64 --job finetune "
      "--micro-batch "
      "1 --global-batch 1 --target hf-trainer ";
  const Told wide = estimate(plan), narrow = estimate(plan + "--state-dtype bf16");
  EXPECT_NEAR(wide.states() / wide.parameters(), 16, 0.01);
  EXPECT_NEAR(narrow.states() / narrow.parameters(), 8, 0.01);
}

TEST_F(UserReport, Ur042StatesAreShardedToo) {  // simplescaling/s1#25
  const Told told = estimate(
      "--model qwen2.5-32b --device A100-SXM4-80GB --devices 16 --seq 64 --micro-batch 1 "
      "--global-batch 16 --target fsdp --zero 3");
  // 16 bytes of each, and torch's AdamW makes 4 more while it steps.
  EXPECT_NEAR(told.states() / told.parameters(), (16 + 4) / 16.0, 0.005);
}

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

TEST_F(UserReport, Ur087NothingFitsIsAnAnswer) {  // ai-dynamo/aiconfigurator#456
  const CommandResult result = run_command(
      {folder_.path()},
      words("plan --json --model llama-2-70b --device A10G --devices 2 --seq 4096 --global-batch 8 "
            "--target megatron"));
  EXPECT_EQ(result.code, 3);
  EXPECT_FALSE(result.err.empty() && result.out.empty());
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
