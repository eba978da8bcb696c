#include <gtest/gtest.h>

#include "command.h"
#include "tests/support/fault.h"

/// What the real program says beside its answer: which other targets take a request, over what
/// links it is priced, and where a plan is kept.
namespace planwright::testing {
namespace {

const char* const kLlama =
    "--model llama-3.1-8b --device H100-SXM5-80GB --seq 4096 --global-batch 64 ";

class AlternativesProcess : public ::testing::Test {
 protected:
  CommandResult run(const std::string& line) { return run_command({folder_.path()}, words(line)); }
  Json json(const std::string& line) {
    const auto documents = json_lines(run(line + " --json").out);
    EXPECT_EQ(documents.size(), 1u) << line;
    return documents.empty() ? Json() : documents.front();
  }
  std::string reason(const std::string& line) { return json(line)["reason"].get<std::string>(); }

  const TestFolder folder_;
};

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// Each target that is named is asked the same, and does not refuse.
TEST_F(AlternativesProcess, AreTargetsThatAcceptTheVeryRequest) {
  const std::string plan = std::string("estimate ") + kLlama + "--devices 8 --pp 2 ";
  const std::string said = reason(plan + "--target deepspeed");
  const std::string key = "it is accepted as it stands with --target ";
  ASSERT_TRUE(has(said, key)) << said;
  std::string names = said.substr(said.find(key) + key.size());
  for (const char* joint : {",", " or"}) {
    for (std::size_t at; (at = names.find(joint)) != std::string::npos;) {
      names.erase(at, std::string(joint).size());
    }
  }
  const auto others = words(names);
  EXPECT_GE(others.size(), 2u) << said;
  for (const std::string& target : others) {
    EXPECT_NE(json(plan + "--target " + target)["verdict"], "invalid") << target;
  }
}

TEST_F(AlternativesProcess, AreLeftOutWhereEveryTargetRefuses) {
  const std::string said =
      reason(std::string("estimate ") + kLlama + "--devices 8 --dp 3 --target deepspeed");
  EXPECT_FALSE(has(said, "--target")) << said;
}

TEST_F(AlternativesProcess, AreNamedOfASpaceToo) {
  const CommandResult result =
      run(std::string("plan ") + kLlama + "--devices 8 --pp 2 --tp 1 --zero 1 --target deepspeed");
  EXPECT_EQ(result.code, 3);
  EXPECT_TRUE(has(result.err, "it is accepted as it stands with --target")) << result.err;
}

TEST_F(AlternativesProcess, TorchtitanSharesSequencesWithTensorRanks) {
  const Json said =
      json(std::string("estimate ") + kLlama + "--devices 8 --tp 2 --zero 3 --target torchtitan");
  EXPECT_NE(said["verdict"], "invalid") << said["reason"];
  EXPECT_EQ(said["candidate"]["sp"], true);
}

TEST_F(AlternativesProcess, LinksAreSaidWithWhereTheyAreFrom) {
  const std::string plan = std::string("estimate ") + kLlama + "--zero 1 --dp 16 --micro-batch 1 ";
  const Json usual = json(plan + "--devices 16")["links"];
  ASSERT_EQ(usual.size(), 2u);
  EXPECT_EQ(usual[0]["bandwidth_bytes_per_s"], 450e9);
  EXPECT_EQ(usual[0]["source"], "estimator/data/gpus.csv");
  EXPECT_EQ(usual[1]["bandwidth_bytes_per_s"], 50e9);
  EXPECT_EQ(usual[1]["source"], "taken as in DGX H100, estimator/data/clusters.csv");
  const Json named = json(plan + "--devices 16 --cluster a3-highgpu-8g")["links"];
  EXPECT_EQ(named[1]["bandwidth_bytes_per_s"], 12.5e9);
  EXPECT_EQ(named[1]["source"], "what a3-highgpu-8g has, estimator/data/clusters.csv");
  folder_.put("slow.toml",
              "[[link]]\nname = \"wire\"\nbandwidth = \"1GB/s\"\nlatency_us = 9\nspan = 16\n");
  const Json own = json(plan + "--devices 16 --cluster slow.toml")["links"];
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(own[0]["source"], "slow.toml");
  const CommandResult text = run(plan + "--devices 16");
  EXPECT_TRUE(has(text.out, "50.0 GB/s among 16 (taken as in DGX H100")) << text.out;
  EXPECT_FALSE(has(run(std::string("estimate ") + kLlama + "--devices 8").out, "GB/s among"));
}

TEST_F(AlternativesProcess, AHostHasWhatItsDevicesNodesUsuallyHave) {
  const std::string plan =
      "estimate --model llama-3.1-405b --device H100-SXM5-80GB --devices 8 --seq 4096 "
      "--global-batch 64 --target deepspeed --zero 3 --recompute full --micro-batch 1 ";
  const Json moved = json(plan + "--offload optimizer+params");
  EXPECT_EQ(moved["verdict"], "too_large") << "12 bytes of each of 405e9 are not in 2 TiB";
  EXPECT_EQ(moved["assumed"],
            Json({"host memory of a node 2048 GiB, taken as in DGX H100; --cluster says "
                  "otherwise"}));
  EXPECT_TRUE(json(plan)["assumed"].empty()) << "nothing is moved there";
  folder_.put("large.toml", "host_memory = \"16TiB\"\n");
  const Json large = json(plan + "--offload optimizer+params --cluster large.toml");
  EXPECT_EQ(large["verdict"], "fits") << large["reason"];
  EXPECT_TRUE(large["assumed"].empty());
  const Json disk = json(plan + "--offload optimizer+params --offload-to nvme");
  EXPECT_TRUE(has(disk["assumed"].back().get<std::string>(), "a disk as fast as host memory"));
}

TEST_F(AlternativesProcess, ExpertsAreSharedOutWhereThatFits) {
  const std::string plan =
      "estimate --model mixtral-8x7b --device H100-SXM5-80GB --devices 64 --seq 4096 "
      "--global-batch 256 --target megatron --pp 4 --zero 1 --recompute full --micro-batch 1";
  const std::string said = reason(plan);
  const std::size_t flag = said.find("--ep"), end = said.find(" would fit");
  ASSERT_TRUE(flag < end && end != std::string::npos) << said;
  EXPECT_EQ(json(plan + " " + said.substr(flag, end - flag))["verdict"], "fits") << said;
}

TEST_F(AlternativesProcess, APartOfANodesNameIsMetWithThoseThatHaveIt) {
  const CommandResult refused = run_command(
      {folder_.path()}, {"estimate", "--model", "gpt2", "--seq", "8", "--cluster", "DGX A100"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(has(refused.err, "did you mean DGX A100 320GB or DGX A100 640GB?")) << refused.err;
}

/// A server has the weights that it computes with, and a trainer others.
TEST_F(AlternativesProcess, AServerKeepsWhatItComputesWithUnderAnyTarget) {
  const std::string server =
      "estimate --job inference --model llama-3.1-8b --device H100-SXM5-80GB --devices 1 --seq "
      "4096 --global-batch 1 --target ";
  const Json usual = json(server + "builtin")["serving"];
  for (const char* target : {"hf-trainer", "accelerate", "fsdp", "torchtitan", "deepspeed"}) {
    EXPECT_EQ(json(server + target)["serving"]["cache_bytes_per_token"],
              usual["cache_bytes_per_token"]);
    EXPECT_EQ(json(server + target)["serving"]["weights_bytes"], usual["weights_bytes"]);
  }
}

TEST_F(AlternativesProcess, DropoutOfAModelIsNotCountedInSilence) {
  const std::string plan = "estimate --model gpt2 --device T4 --seq 512 --global-batch 8 ";
  EXPECT_TRUE(has(run(plan).err, "gpt2 says attn_pdrop = 0.1, embd_pdrop = 0.1"));
  EXPECT_FALSE(has(run(plan + "--hidden-dropout 0").err, "attn_pdrop"));
}

TEST_F(AlternativesProcess, AShortNameIsSaidToBeTakenForADevice) {
  const std::string plan = "estimate --model llama-2-7b --seq 2048 --devices 8 --zero 3 --device ";
  const CommandResult text = run(plan + "A100-80GB");
  EXPECT_TRUE(has(text.out,
                  "assumed: device A100-80GB is taken for A100-SXM4-80GB; A100-PCIE-80GB would be "
                  "another\n"))
      << text.out;
  EXPECT_EQ(json(plan + "4090")["assumed"], Json({"device 4090 is taken for RTX 4090"}));
  EXPECT_TRUE(json(plan + "a100-sxm4-80gb")["assumed"].empty());
}

TEST_F(AlternativesProcess, APlanIsKeptWhereItFits) {
  const std::string small = "--model tiny-llama-kind --device cpu --seq 64 --global-batch 8 ";
  EXPECT_EQ(run("plan " + small + "--save-plan best.json").code, 0);
  EXPECT_TRUE(has(file_text(folder_ / "best.json"), "planwright.plan_file/1"));
  EXPECT_EQ(run("estimate --plan best.json").code, 0);

  folder_.put("other.json", "{}");
  const CommandResult kept = run("estimate " + small + "--save-plan other.json");
  EXPECT_EQ(kept.code, 2);
  EXPECT_TRUE(has(kept.err, "--save-plan = other.json: exists with other content")) << kept.err;
  EXPECT_FALSE(has(kept.err, "--out")) << kept.err;
  EXPECT_EQ(file_text(folder_ / "other.json"), "{}");

  for (const char* verb : {"estimate ", "plan "}) {
    const CommandResult early = run(verb + small + "--save-plan other.json");
    EXPECT_EQ(early.out, "") << "before anything is computed";
    EXPECT_EQ(early.code, 2);
    const CommandResult folder = run(verb + small + "--save-plan .");
    EXPECT_EQ(folder.code, 2);
    EXPECT_TRUE(has(folder.err, "--save-plan = .: is a folder: name a file in it")) << folder.err;
    const CommandResult below = run(verb + small + "--save-plan other.json/x.json");
    EXPECT_EQ(below.code, 2);
    EXPECT_TRUE(has(below.err, "other.json is not a folder")) << below.err;
  }
  const CommandResult emitted = run("emit --plan best.json --out other.json");
  EXPECT_EQ(emitted.code, 2);
  EXPECT_TRUE(has(emitted.err, "--out = other.json: cannot be written")) << emitted.err;
  EXPECT_EQ(run("plan " + small + "--save-plan best.json").code, 0) << "the same plan again";
  EXPECT_EQ(run("plan " + small + "--save-plan made/for/best.json").code, 0);

  const CommandResult large =
      run(std::string("estimate ") + kLlama + "--devices 1 --save-plan large.json");
  EXPECT_EQ(large.code, 3);
  EXPECT_TRUE(has(large.err, "large.json is not written: the plan does not fit")) << large.err;
}

TEST_F(AlternativesProcess, ModelsAreFoundByAPartOfTheirName) {
  const Json rows = json("models mixtral")["rows"];
  ASSERT_GE(rows.size(), 1u);
  for (const Json& row : rows) EXPECT_TRUE(has(row["name"].get<std::string>(), "mixtral")) << row;
  EXPECT_EQ(run("models nothing-of-that-name").code, 2);
}

}  // namespace
}  // namespace planwright::testing
