#include "command.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/fault.h"

/// The real program on problems for which nothing is started.
namespace planwright::testing {
namespace {

const char* const kLlama =
    "--model llama-2-7b --device A100-SXM4-80GB --devices 8 --seq 4096 "
    "--global-batch 64 ";
const char* const kDataParallel =
    "--tp 1 --pp 1 --hsdp 1 --zero 0,1 --recompute none,full --loss plain ";
const char* const kTiny =
    "--model tiny-llama-kind --device cpu --devices 2 --seq 64 --global-batch 8 ";

class CommandProcess : public ::testing::Test {
 protected:
  CommandResult run(const std::string& line) { return run_command({folder_.path()}, words(line)); }
  /// The one document of a --json command.
  Json json(const std::string& line, int code) {
    const CommandResult result = run(line + " --json");
    EXPECT_EQ(result.code, code) << result.err;
    const auto documents = json_lines(result.out);
    EXPECT_EQ(documents.size(), 1u) << result.out;
    return documents.empty() ? Json() : documents.front();
  }

  const TestFolder folder_;
};

TEST_F(CommandProcess, SaysWhatItIs) {
  const CommandResult result = run("--version");
  EXPECT_EQ(result.code, 0);
  for (const char* part : {"planwright 0.1.0", "revision ", "torch ", "CUDA ", "NCCL "}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(run("--help").code, 0);
  const CommandResult nothing = run("");
  EXPECT_EQ(nothing.code, 2);
  EXPECT_NE(nothing.out.find("planwright tune"), std::string::npos);
}

TEST_F(CommandProcess, HelpsWithAnExampleOnEveryVerb) {
  for (const char* verb : {"estimate", "plan", "probe", "tune", "emit", "history", "score",
                           "devices", "models", "doctor"}) {
    const CommandResult result = run(std::string(verb) + " --help");
    EXPECT_EQ(result.code, 0) << verb;
    EXPECT_EQ(result.err, "") << verb;
    EXPECT_NE(result.out.find(std::string("Example:\n  planwright ") + verb), std::string::npos)
        << result.out;
    EXPECT_NE(result.out.find("--json"), std::string::npos) << verb;
  }
}

TEST_F(CommandProcess, HelpOfAVerbIsTheVerbsHelp) {
  EXPECT_EQ(run("help tune").out, run("tune --help").out);
  EXPECT_EQ(run("--help tune").out, run("tune --help").out);
}

TEST_F(CommandProcess, NamesAFileThatCannotBeRead) {
  for (const char* line : {"estimate --seq 8 --model ", "plan ", "estimate --plan "}) {
    const CommandResult result = run(std::string(line) + "/proc/self/mem");
    EXPECT_EQ(result.code, 1) << line;
    EXPECT_EQ(result.err, "planwright: cannot read /proc/self/mem: Input/output error\n") << line;
  }
}

TEST_F(CommandProcess, EstimatesWhatFits) {
  const Json json = this->json(std::string("estimate ") + kLlama + "--zero 1 --recompute full", 0);
  EXPECT_EQ(json["schema"], "planwright.estimate/1");
  EXPECT_EQ(json["verdict"], "fits");
  EXPECT_EQ(json["candidate"]["dp"], 8);
  EXPECT_EQ(json["parameters"]["total"], 6738415616);
  for (const Json& stage : json["stages"]) {
    std::int64_t sum = 0;
    for (const auto& [account, bytes] : stage["accounts"].items()) {
      if (account != "context" && account != "fragmentation") sum += bytes.get<std::int64_t>();
    }
    EXPECT_EQ(sum, stage["allocated_bytes"].get<std::int64_t>());
  }
  ASSERT_EQ(json["phases"].size(), 6);
  for (const Json& phase : json["phases"]) {
    std::int64_t sum = 0;
    for (const auto& [account, bytes] : phase["accounts"].items()) {
      if (account != "context" && account != "fragmentation") sum += bytes.get<std::int64_t>();
    }
    EXPECT_EQ(sum, phase["allocated_bytes"].get<std::int64_t>()) << phase["phase"];
  }
}

TEST_F(CommandProcess, EstimatesWhatIsTooLargeWithExitCode3) {
  const Json json = this->json(std::string("estimate ") + kLlama + "--zero 0", 3);
  EXPECT_EQ(json["verdict"], "too_large");
  const std::string reason = json["reason"];
  EXPECT_NE(reason.find("GiB"), std::string::npos) << reason;
}

TEST_F(CommandProcess, CallsAnIllegalCandidateInvalidWithExitCode2) {
  const Json json = this->json(std::string("estimate ") + kLlama + "--dp 4", 2);
  EXPECT_EQ(json["verdict"], "invalid");
  EXPECT_TRUE(json["step_time_s"].is_null());
  EXPECT_TRUE(json["tokens_per_second_per_device"].is_null());
  const std::string reason = json["reason"];
  EXPECT_NE(reason.find("8 devices"), std::string::npos) << reason;
  EXPECT_EQ(this->json(std::string("probe ") + kTiny + "--dp 3", 2)["verdict"], "invalid");
  EXPECT_EQ(this->json(std::string("estimate ") + kTiny + "--micro-batch 3", 2)["verdict"],
            "invalid");
  EXPECT_EQ(this->json(std::string("estimate ") + kTiny + "--cp 2", 2)["verdict"], "invalid");
}

TEST_F(CommandProcess, PlansByRank) {
  const Json json = this->json(std::string("plan ") + kLlama + "--top 3", 0);
  EXPECT_EQ(json["schema"], "planwright.plan/1");
  EXPECT_LE(json["plans"].size(), 3u);
  ASSERT_FALSE(json["plans"].empty());
  double before = 1e300;
  std::int64_t rank = 0;
  for (const Json& plan : json["plans"]) {
    EXPECT_EQ(plan["rank"], ++rank);
    EXPECT_EQ(plan["verdict"], "fits");
    EXPECT_LE(plan["tokens_per_second_per_device"].get<double>(), before);
    before = plan["tokens_per_second_per_device"];
  }
  std::int64_t dropped = 0;
  for (const auto& [reason, count] : json["dropped"].items()) dropped += count.get<std::int64_t>();
  EXPECT_EQ(json["counted"].get<std::int64_t>(), dropped + json["feasible"].get<std::int64_t>());
}

TEST_F(CommandProcess, SaysWhyNothingFitsWithExitCode3) {
  const std::string line = std::string("plan ") + kLlama + "--memory 2GiB";
  const CommandResult result = run(line);
  EXPECT_EQ(result.code, 3);
  for (const char* part : {"none of the", "GiB", "would fit"}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << part << ": " << result.err;
  }
  EXPECT_TRUE(json(line, 3)["plans"].empty());
}

TEST_F(CommandProcess, SaysWhichRulesLeaveNothingLegal) {
  const CommandResult result =
      run(std::string("plan ") + kLlama + kDataParallel + "--micro-batch 5");
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("is legal; all of them break global_batch_divides: "),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("micro-batch 5 does not divide it"), std::string::npos) << result.err;
}

TEST_F(CommandProcess, ExplainsWhatItDropped) {
  const Json json = this->json(
      std::string("plan ") + kLlama + kDataParallel + "--micro-batch 1,5 --explain-dropped", 0);
  ASSERT_EQ(json["rules"].size(), 2u);
  EXPECT_EQ(json["rules"][0]["count"], 4);
  EXPECT_NE(json["rules"][0]["fix"], "");
  EXPECT_EQ(json["rules"][1]["name"], "too_large");
  EXPECT_EQ(json["rules"][1]["count"], json["dropped"]["too_large"]);
  const std::string miss = json["rules"][1]["text"];
  EXPECT_EQ(miss.find("the nearest, dp 8"), 0u) << miss;
  EXPECT_NE(miss.find("no room for "), std::string::npos) << miss;
  EXPECT_EQ(json.dump().find("{global_batch}"), std::string::npos) << "for the first of them";
}

TEST_F(CommandProcess, GivesTheSameBytesForTheSameInput) {
  const std::string line = std::string("plan ") + kLlama + "--json --quiet";
  Json first = json_lines(run(line).out).front();
  Json second = json_lines(run(line).out).front();
  first.erase("seconds");
  second.erase("seconds");
  EXPECT_EQ(first.dump(), second.dump());
}

TEST_F(CommandProcess, KeepsStdoutForTheResult) {
  const CommandResult people = run(std::string("estimate ") + kLlama + "--zero 1");
  EXPECT_NE(people.out.find("fits"), std::string::npos);
  EXPECT_EQ(people.err, "");
  const CommandResult quiet = run(std::string("estimate ") + kLlama + "--zero 0 --quiet --json");
  EXPECT_EQ(json_lines(quiet.out).size(), 1u);
  EXPECT_NE(quiet.err.find("planwright: "), std::string::npos) << "errors are told all the same";
}

TEST_F(CommandProcess, ColoursOnlyWhenAsked) {
  const std::string line = std::string("estimate ") + kLlama + "--zero 1";
  EXPECT_EQ(run(line).out.find('\x1b'), std::string::npos) << "not a terminal";
  EXPECT_NE(run(line + " --color always").out.find('\x1b'), std::string::npos);
  const CommandPlace place{folder_.path(), {{"NO_COLOR", "1"}}};
  EXPECT_EQ(run_command(place, words(line + " --color auto")).out.find('\x1b'), std::string::npos);
}

TEST_F(CommandProcess, ReadsAFileAndLetsFlagsOverrideIt) {
  folder_.put("study.toml", R"([model]
model = "llama-2-7b"
[cluster]
device = "A100-SXM4-80GB"
devices = 8
[job]
seq = 4096
global_batch = 64
[candidate]
zero = 0
[space]
tp = 1
pp = 1
hsdp = 1
zero = [0, 1]
recompute = "full"
loss = "plain"
micro_batch = [1, 2]
)");
  EXPECT_EQ(json("estimate study.toml", 3)["candidate"]["zero"], 0);
  const Json estimate = json("estimate study.toml --zero 1 --recompute full", 0);
  EXPECT_EQ(estimate["candidate"]["zero"], 1);
  EXPECT_EQ(json("plan study.toml", 0)["counted"], 4);
  EXPECT_EQ(json("plan study.toml --micro-batch 1", 0)["counted"], 2);
}

TEST_F(CommandProcess, TakesWhatTheClusterFileKnows) {
  folder_.put("slow.toml", R"(host_memory = "1TiB"
[[link]]
name = "slow"
bandwidth = "1GB/s"
latency_us = 50
span = 8
)");
  const std::string line = std::string("estimate ") + kLlama + "--zero 1";
  const double usual = json(line, 0)["time"]["communication_s"];
  EXPECT_GT(json(line + " --cluster slow.toml", 0)["time"]["communication_s"].get<double>(),
            10 * usual);
}

TEST_F(CommandProcess, SaysWhatAServerNeeds) {
  const std::string line =
      "estimate --job inference --model llama-3.1-70b --device A100-80GB --seq 131072 ";
  const Json four = json(line + "--devices 4 --tp 4", 0);
  EXPECT_EQ(four["verdict"], "fits");
  EXPECT_EQ(four["peak"]["allocated_bytes"], four["stages"][0]["allocated_bytes"]);
  EXPECT_EQ(four["stages"][0]["accounts"]["kv_cache"], (std::int64_t{40} << 30) / 4);
  EXPECT_EQ(four["serving"]["cache_bytes_per_token"], 81920);
  EXPECT_EQ(four["wall_account"], "parameters");
  EXPECT_EQ(four["wall"], "static");
  EXPECT_EQ(json(line + "--devices 1 --quant nf4 --kv-dtype fp8", 0)["verdict"], "fits");
  const Json one = json(line + "--devices 1", 3);
  EXPECT_EQ(one["verdict"], "too_large");
  EXPECT_EQ(run("probe --job inference --model tiny-llama-kind --device cpu --seq 8").code, 2);
  EXPECT_NE(run(line + "--devices 4 --tp 4").out.find("longest context that fits"),
            std::string::npos);
}

TEST_F(CommandProcess, NamesWhatTheRuntimeDoesNotRun) {
  for (const auto& [model, what] : {std::pair{"mixtral-8x7b", "experts"},
                                    {"deepseek-v3", "experts"},
                                    {"mamba-2.8b", "Mamba layers"},
                                    {"gemma-2-9b", "norms after"},
                                    {"bloom-176b", "no learned or rotary positions"},
                                    {"opt-13b", "an activation"}}) {
    const CommandResult result =
        run(std::string("estimate --device H100-SXM5-80GB --seq 128 ") + "--model " + model);
    EXPECT_EQ(result.code, 2) << model;
    EXPECT_NE(result.out.find(what), std::string::npos) << result.out;
  }
}

TEST_F(CommandProcess, CountsStagesAndFillsTheVocabularyUp) {
  const std::string line = "estimate --model gpt2 --device A100-80GB --seq 128 ";
  const Json padded = json(line + "--pad-vocab 128", 0);  // Megatron-LM's 50304
  EXPECT_EQ(padded["parameters"]["total"], 124'439'808 + (50304 - 50257) * 768);
  const Json stages = json(line + "--devices 2 --pp 2", 0)["parameters"]["stages"];
  ASSERT_EQ(stages.size(), 2u);
  EXPECT_EQ(stages[0].get<std::int64_t>() + stages[1].get<std::int64_t>(),
            124'439'808 + 50257 * 768)
      << "the tied matrix on either";
}

TEST_F(CommandProcess, TakesNodesByName) {
  const Json two = json(std::string("estimate --model llama-2-7b --seq 4096 --zero 3 ") +
                            "--devices 16 --cluster p4de.24xlarge",
                        0);
  EXPECT_EQ(two["candidate"]["dp"], 16);
  const CommandResult unknown = run("estimate --model gpt2 --seq 8 --cluster p5.48xlarg");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("did you mean p5.48xlarge"), std::string::npos) << unknown.err;
}

TEST_F(CommandProcess, ListsWhatItKnows) {
  const Json devices = json("devices", 0);
  EXPECT_EQ(devices["schema"], "planwright.devices/1");
  EXPECT_GE(devices["rows"].size(), 55u);
  EXPECT_GE(devices["nodes"].size(), 30u);
  for (const Json& row : devices["rows"]) EXPECT_NE(row["source"], "") << row["name"];
  const Json models = json("models", 0);
  EXPECT_GE(models["rows"].size(), 60u);
  bool found = false;
  for (const Json& row : models["rows"]) {
    EXPECT_NE(row["source"], "") << row["name"];
    found |= row["name"] == "llama-2-7b" && row["parameters"]["total"] == 6738415616;
  }
  EXPECT_TRUE(found);
}

TEST_F(CommandProcess, FailsWithoutItsWorker) {
  std::filesystem::create_directory(folder_ / "bin");
  std::filesystem::copy(std::string(PLANWRIGHT_BIN_DIR) + "/planwright",
                        folder_ / "bin/planwright");
  const CommandPlace place{folder_.path(), {}, folder_ / "bin/planwright"};
  for (const char* verb : {"probe ", "tune "}) {
    const CommandResult result = run_command(place, words(verb + std::string(kTiny)));
    EXPECT_EQ(result.code, 1) << result.err;
    EXPECT_NE(result.err.find("planwright-worker-cpu cannot be run"), std::string::npos)
        << result.err;
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "planwright.db"));
  const CommandResult doctor = run_command(place, words("doctor --json"));
  EXPECT_EQ(doctor.code, 1);
  bool told = false;
  const Json document = json_lines(doctor.out).front();
  for (const Json& check : document["checks"]) {
    if (check["name"] != "worker") continue;
    told = !check["ok"].get<bool>() && !check["fix"].get<std::string>().empty();
  }
  EXPECT_TRUE(told) << doctor.out;
}

TEST_F(CommandProcess, EndsInOrderWithNobodyToTell) {
  const std::string program = std::string(PLANWRIGHT_BIN_DIR) + "/planwright";
  for (const char* closed : {"2>/dev/full", "2>&-"}) {
    const CommandResult result = run_command({folder_.path(), {}, "/bin/sh"},
                                             {"-c", program + " estimate --bogus " + closed});
    EXPECT_EQ(result.code, 2) << closed;
  }
}

TEST_F(CommandProcess, FailsWhereTheResultCannotBeWritten) {
  const CommandPlace place{folder_.path(), {}, "/bin/sh"};
  const std::string program = std::string(PLANWRIGHT_BIN_DIR) + "/planwright";
  const CommandResult result = run_command(place, {"-c", program + " devices > /dev/full"});
  EXPECT_EQ(result.code, 1);
  EXPECT_NE(result.err.find("stdout cannot be written"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace planwright::testing
