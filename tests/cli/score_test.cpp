#include <fmt/core.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "command.h"
#include "tests/support/fault.h"

/// The verb `score`, as a program.
namespace planwright::testing {
namespace {

constexpr const char* kHeader =
    "id,source,model,layers,hidden,heads,kv_heads,ffn,vocab,tied,act,seq_len,gpu,n_gpus,framework,"
    "precision,zero,micro_batch,recompute,offload,peak_mem_gib,mem_kind,outcome\n";

/// A Llama 2 7B on eight devices; `rest` are the cells from `framework` on.
std::string row(const std::string& id, const std::string& rest) {
  return id +
         ",owner/name table,Llama 2 7B,32,4096,32,32,11008,32000,0,swiglu,2048,A100-SXM4-80GB,8," +
         rest + "\n";
}

class ScoreProcess : public ::testing::Test {
 protected:
  ScoreProcess() {
    folder_.put("rows.csv", kHeader + row("allocated", "fsdp,bf16,3,2,full,none,20,allocated,ok") +
                                row("reserved", "fsdp,bf16,3,2,full,none,22,reserved,ok") +
                                row("device", "fsdp,bf16,3,2,full,none,24,nvidia-smi,ok") +
                                row("unmeasured", "fsdp,bf16,3,2,full,none,,,") +
                                row("full", "fsdp,bf16,0,64,none,none,,,oom") +
                                row("illegal", "hf-trainer,bf16,1,2,full,none,,,oom") +
                                row("unplanned", "fsdp,bf16,1,2,full,none,20,allocated,ok") +
                                row("broken", "fsdp,bf16,3,two,full,none,20,allocated,ok"));
  }

  CommandResult run(const std::string& line) { return run_command({folder_.path()}, words(line)); }

  std::map<std::string, Json> scored(const std::string& line) {
    const CommandResult result = run(line + " --json");
    EXPECT_EQ(result.code, 0) << result.err;
    std::map<std::string, Json> by_id;
    for (const Json& json : json_lines(result.out)) by_id[json["id"]] = json;
    return by_id;
  }

  const TestFolder folder_;
};

TEST_F(ScoreProcess, PrintsAJsonLineForEachRow) {
  const auto rows = scored("score rows.csv");
  ASSERT_EQ(rows.size(), 8u);
  const Json& json = rows.at("allocated");
  EXPECT_EQ(json["schema"], "planwright.score/1");
  EXPECT_EQ(json["line"], 2);
  EXPECT_EQ(json["status"], "ok");
  EXPECT_EQ(json["target"], "fsdp");
  EXPECT_EQ(json["verdict"], "fits");
  EXPECT_GT(json["peak_allocated_bytes"].get<double>(), 0);
  EXPECT_GT(json["peak_reserved_bytes"], json["peak_allocated_bytes"]);
  EXPECT_GT(json["peak_device_bytes"], json["peak_reserved_bytes"]);
  EXPECT_GT(json["step_time_s"].get<double>(), 0);
  EXPECT_GT(json["tokens_per_second_per_device"].get<double>(), 0);
  EXPECT_GT(json["fit_probability"].get<double>(), 0.9);
  EXPECT_FALSE(json["assumed"].empty());
}

TEST_F(ScoreProcess, ComparesAPeakWithThePredictionOfItsKind) {
  const auto rows = scored("score rows.csv");
  const std::map<std::string, std::string> predictions{{"allocated", "peak_allocated_bytes"},
                                                       {"reserved", "peak_reserved_bytes"},
                                                       {"device", "peak_device_bytes"}};
  for (const auto& [id, key] : predictions) {
    const Json& json = rows.at(id);
    const double expected = json[key].get<double>() / json["measured_bytes"].get<double>() - 1;
    EXPECT_NEAR(json["error"].get<double>(), expected, 1e-12) << id;
  }
  EXPECT_EQ(rows.at("device")["mem_kind"], "nvidia-smi");
  EXPECT_FALSE(rows.at("unmeasured").contains("error"));
  EXPECT_FALSE(rows.at("unmeasured").contains("outcome"));
  EXPECT_EQ(rows.at("full")["outcome"], "oom");
}

TEST_F(ScoreProcess, JudgesWhatIsTooLargeOrRefusedByTheFramework) {
  const auto rows = scored("score rows.csv");
  EXPECT_EQ(rows.at("full")["verdict"], "too_large");
  EXPECT_LT(rows.at("full")["fit_probability"].get<double>(), 0.1);
  const Json& illegal = rows.at("illegal");
  EXPECT_EQ(illegal["status"], "ok");
  EXPECT_EQ(illegal["verdict"], "invalid");
  EXPECT_EQ(illegal["fit_probability"], 0);
  EXPECT_TRUE(illegal["peak_allocated_bytes"].is_null());
  EXPECT_NE(illegal["reason"].get<std::string>().find("zero 1 has no FSDP form"),
            std::string::npos);
}

TEST_F(ScoreProcess, SkipsWhatItCannotAnswerAndSaysWhy) {
  const CommandResult result = run("score rows.csv --json");
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("rows.csv: line 9, micro_batch = two: must be a whole number"),
            std::string::npos)
      << result.err;
  const Json broken = json_lines(result.out).back();
  EXPECT_EQ(broken["id"], "broken");
  EXPECT_EQ(broken["status"], "skipped");
  EXPECT_EQ(broken["reason"], "rows.csv: line 9, micro_batch = two: must be a whole number");
  EXPECT_TRUE(broken["fit_probability"].is_null());
  EXPECT_TRUE(broken["peak_allocated_bytes"].is_null());
}

TEST_F(ScoreProcess, FailsWhereNoRowCanBeRead) {
  const std::string broken = row("broken", "fsdp,bf16,3,two,full,none,20,allocated,ok");
  folder_.put("broken.csv", kHeader + broken);
  const CommandResult result = run("score broken.csv --json");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(json_lines(result.out).size(), 1u);
  EXPECT_NE(result.err.find("broken.csv: none of the rows can be read"), std::string::npos)
      << result.err;
  EXPECT_EQ(run("score rows.csv --calibrate-on broken.csv").code, 2);
  folder_.put("skipped.csv", kHeader + row("skipped", "fsdp,bf16,3,,full,none,20,allocated,ok"));
  EXPECT_EQ(run("score skipped.csv").code, 0) << "what a source does not say is no mistake";
}

TEST_F(ScoreProcess, SkipsWhatThisVersionDoesNotPlanFor) {
  const Json json = scored("score rows.csv").at("unplanned");
  EXPECT_EQ(json["status"], "skipped");
  EXPECT_TRUE(json["verdict"].is_null());
  EXPECT_EQ(json["reason"], "fsdp does not support zero 1; use zero 0, 2 or 3");
}

TEST_F(ScoreProcess, GivesThePeakOfTheStageThatIsMeant) {
  const std::string header =
      "id,model,layers,hidden,heads,kv_heads,ffn,vocab,tied,act,seq_len,gpu,n_gpus,framework,"
      "precision,pp,micro_batch,global_batch,peak_of\n";
  std::string rows;
  for (const char* stage : {"any", "first", "last"}) {
    rows += std::string(stage) +
            ",Llama 2 7B,32,4096,32,32,11008,32000,0,swiglu,2048,A100-SXM4-80GB,8,megatron,bf16,4,"
            "1,16," +
            stage + "\n";
  }
  folder_.put("stages.csv", header + rows);
  const auto scores = scored("score stages.csv");
  EXPECT_EQ(scores.at("last")["peak_of"], "last");
  EXPECT_EQ(scores.at("any")["peak_allocated_bytes"], scores.at("first")["peak_allocated_bytes"]);
  EXPECT_LT(scores.at("last")["peak_allocated_bytes"], scores.at("first")["peak_allocated_bytes"]);
}

TEST_F(ScoreProcess, SaysWhereAPeakOfAnotherKindIsExpected) {
  const auto rows = scored("score rows.csv");
  const Json& json = rows.at("device");
  EXPECT_EQ(json["peak_allocated_low_bytes"], json["peak_allocated_bytes"]);
  EXPECT_EQ(json["peak_allocated_high_bytes"], json["peak_allocated_bytes"]);
  EXPECT_LT(json["peak_device_low_bytes"], json["peak_device_bytes"]);
  EXPECT_GT(json["peak_device_high_bytes"], json["peak_device_bytes"]);
  EXPECT_TRUE(json["in_range"].is_boolean());
  EXPECT_FALSE(rows.at("allocated").contains("in_range"));
  EXPECT_FALSE(rows.at("unmeasured").contains("in_range"));
}

constexpr const char* kTrainerHeader =
    "id,source,model,gpu,gpu_mem_gb,n_gpus,framework,framework_version,precision,seq_len,"
    "micro_batch,recompute,lora_rank,lora_targets,kernels\n";

TEST_F(ScoreProcess, SkipsARowThatWasRunTwiceWithoutSayingHow) {
  const std::string lora = ",o/n,meta-llama/Meta-Llama-3-8B,A100,80,1,hf-trainer,";
  const std::string rest = ",bf16,4096,4,full,16,\"q,v\",";
  folder_.put("twins.csv", kTrainerHeader + ("a" + lora + "transformers 4.45.2" + rest + "\n") +
                               "b" + lora + "transformers 4.45.2" + rest + "\n" + "c" + lora +
                               "transformers 4.48.1" + rest + "\n" + "d" + lora +
                               "transformers 4.45.2" + rest + "liger\n" + "e" + lora +
                               "transformers 4.43.3" + rest + "eager\n");
  const auto rows = scored("score twins.csv");
  for (const char* id : {"a", "b"}) {
    const Json& json = rows.at(id);
    EXPECT_EQ(json["status"], "skipped");
    EXPECT_NE(json["reason"].get<std::string>().find("missing column: kernels"), std::string::npos);
    EXPECT_TRUE(json["peak_allocated_bytes"].is_null());
    EXPECT_LT(json["peak_allocated_low_bytes"], json["peak_allocated_high_bytes"]);
  }
  for (const char* id : {"c", "d", "e"}) EXPECT_EQ(rows.at(id)["status"], "ok") << id;
  EXPECT_LT(rows.at("d")["peak_allocated_bytes"], rows.at("e")["peak_allocated_bytes"]);
}

TEST_F(ScoreProcess, AnswersWhatEveryReadingAgreesOn) {
  const auto row = [](const std::string& id, const char* batch) {
    return id +
           ",o/n,mistralai/Mistral-7B-v0.1,A100,80,1,hf-trainer,transformers 4.45.2,bf16,4096," +
           batch + ",full,,,\n";
  };
  folder_.put("twins.csv", kTrainerHeader + row("step", "4") + row("step2", "4") +
                               row("full", "64") + row("full2", "64"));
  const auto rows = scored("score twins.csv");
  EXPECT_EQ(rows.at("step")["verdict"], "fits");
  EXPECT_NEAR(rows.at("step")["peak_allocated_bytes"].get<double>() / kGiB, 67.46, 0.05);
  EXPECT_EQ(rows.at("full")["verdict"], "too_large");
}

TEST_F(ScoreProcess, AnswersTheMiddleOfReadingsThatAreNear) {
  const auto row = [](const std::string& id, const char* kernels) {
    return id +
           ",o/n,mistralai/Mistral-7B-v0.1,A100,80,1,hf-trainer,transformers 4.45.2,bf16,4096," +
           "4,full,16,\"q,v\"," + kernels + "\n";
  };
  folder_.put("near.csv", kTrainerHeader + row("a", "") + row("b", "") + row("c", "eager"));
  const auto rows = scored("score near.csv");
  const Json& json = rows.at("a");
  ASSERT_EQ(json["status"], "ok") << json["reason"];
  EXPECT_EQ(json["verdict"], "fits");
  const auto at = [&](const char* key) { return json[key].get<double>(); };
  EXPECT_NEAR(at("peak_allocated_bytes"),
              std::sqrt(at("peak_allocated_low_bytes") * at("peak_allocated_high_bytes")), 2);
  EXPECT_LT(json["peak_allocated_bytes"], rows.at("c")["peak_allocated_bytes"]);
  EXPECT_EQ(json["assumed"].back(), "the middle of its readings");
}

/// Of 32 blocks, 4 stages of 3 chunks cannot be as many each; Megatron has arguments that make
/// them different, and rows have no column for it.
TEST_F(ScoreProcess, SkipsPlansThatAnArgumentWithoutAColumnMakesLegal) {
  folder_.put(
      "uneven.csv",
      "id,model,gpu,n_gpus,framework,precision,seq_len,micro_batch,global_batch,pp,vpp,zero\n"
      "a,meta-llama/Llama-2-7b-hf,A100-SXM4-80GB,8,megatron,bf16,4096,1,16,4,3,1\n");
  const Json json = scored("score uneven.csv").at("a");
  EXPECT_EQ(json["status"], "skipped");
  EXPECT_TRUE(json["reason"].get<std::string>().ends_with("missing column: pipeline_layout"))
      << json["reason"];
}

/// Of 11 micro-batches no equal rounds for 4 stages are made; Megatron may be told of smaller
/// rounds, and torchtitan not.
TEST_F(ScoreProcess, SkipsThemOnlyForTheTargetThatHasTheArgument) {
  const auto row = [](const char* id, const char* framework, const char* zero) {
    return fmt::format("{},meta-llama/Llama-2-7b-hf,A100-SXM4-80GB,8,{},bf16,4096,1,22,4,2,{}\n",
                       id, framework, zero);
  };
  folder_.put(
      "rounds.csv",
      "id,model,gpu,n_gpus,framework,precision,seq_len,micro_batch,global_batch,pp,vpp,zero\n" +
          row("a", "megatron", "1") + row("b", "torchtitan", "2"));
  const auto rows = scored("score rounds.csv");
  EXPECT_EQ(rows.at("a")["status"], "skipped") << rows.at("a")["reason"];
  EXPECT_EQ(rows.at("b")["verdict"], "invalid") << rows.at("b")["reason"];
}

TEST_F(ScoreProcess, GivesNoVerdictOfADeviceThatNobodyNames) {
  folder_.put("bare.csv",
              kTrainerHeader + std::string("a,o/n,mistralai/Mistral-7B-v0.1,,,1,hf-trainer,,bf16,"
                                           "4096,4,full,8,\"q,v\",\n"));
  const Json json = scored("score bare.csv").at("a");
  EXPECT_EQ(json["status"], "ok");
  EXPECT_TRUE(json["verdict"].is_null());
  EXPECT_TRUE(json["fit_probability"].is_null());
  EXPECT_GT(json["peak_allocated_bytes"].get<double>(), 0);
}

TEST_F(ScoreProcess, SumsUpForPeople) {
  const CommandResult result = run("score rows.csv");
  EXPECT_EQ(result.code, 0) << result.err;
  for (const char* part : {"owner/name", "allocated", "reserved", "nvidia-smi", "median", "outcome",
                           "too large", "in range", "skipped  because"}) {
    EXPECT_NE(result.out.find(part), std::string::npos) << part << " is not in " << result.out;
  }
}

TEST_F(ScoreProcess, AnswersDifferentlyWithWhatOtherRowsHaveTaught) {
  folder_.put("other.csv", kHeader + row("a", "fsdp,bf16,3,1,full,none,30,allocated,ok") +
                               row("b", "fsdp,bf16,3,4,full,none,60,allocated,ok") +
                               row("c", "fsdp,bf16,3,x,full,none,60,allocated,ok"));
  const auto before = scored("score rows.csv");
  const auto after = scored("score rows.csv --calibrate-on other.csv");
  EXPECT_GT(after.at("allocated")["peak_allocated_bytes"],
            before.at("allocated")["peak_allocated_bytes"]);
  EXPECT_EQ(after.at("allocated")["step_time_s"], before.at("allocated")["step_time_s"]);
  const CommandResult named = run("score rows.csv --calibrate-on other.csv");
  EXPECT_NE(named.err.find("other.csv: line 4, micro_batch = x"), std::string::npos) << named.err;
}

/// What the allocator kept beside it was more than twice as much as is expected.
TEST_F(ScoreProcess, LearnsMoreFromRowsOfTheSameOriginThanFromOthers) {
  folder_.put("own.csv", kHeader + row("a", "fsdp,bf16,3,4,full,none,36,reserved,ok"));
  std::string others = kHeader + row("a", "fsdp,bf16,3,4,full,none,36,reserved,ok");
  others.replace(others.find("owner/name"), 10, "other/name");
  folder_.put("others.csv", others);
  const auto peak = [&](const std::string& line) {
    return scored(line).at("reserved")["peak_reserved_bytes"].get<double>();
  };
  const double taught = peak("score rows.csv --calibrate-on others.csv");
  EXPECT_GT(taught, peak("score rows.csv"));
  EXPECT_LT(taught, peak("score rows.csv --calibrate-on own.csv"));
}

TEST_F(ScoreProcess, GivesTheSameAnswersWithoutTheMeasurements) {
  folder_.put("bare.csv", kHeader + row("allocated", "fsdp,bf16,3,2,full,none,,,") +
                              row("full", "fsdp,bf16,0,64,none,none,,,") +
                              row("illegal", "hf-trainer,bf16,1,2,full,none,,,"));
  const auto rows = scored("score rows.csv");
  for (const auto& [id, bare] : scored("score bare.csv")) {
    for (const char* key : {"status", "verdict", "reason", "peak_allocated_bytes",
                            "peak_device_bytes", "fit_probability"}) {
      EXPECT_EQ(bare[key], rows.at(id)[key]) << id << " " << key;
    }
  }
}

TEST_F(ScoreProcess, TakesAFileWithoutRows) {
  folder_.put("empty.csv", "id\n");
  const CommandResult result = run("score empty.csv");
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(run("score empty.csv --json").out, "");
}

struct Refused {
  const char* name;
  const char* arguments;
  const char* fragment;
};

class ScoreInputProcess : public ::testing::TestWithParam<Refused> {};

TEST_P(ScoreInputProcess, IsRefusedWithExitCode2) {
  const TestFolder folder;
  folder.put("typo.csv", "id,micro_batc\na,1\n");
  folder.put("noid.csv", "tp\n1\n");
  folder.put("good.csv", "id\na\n");
  const CommandResult result = run_command({folder.path()}, words(GetParam().arguments));
  EXPECT_EQ(result.code, 2) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_NE(result.err.find(GetParam().fragment), std::string::npos) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Rows, ScoreInputProcess,
    ::testing::Values(
        Refused{"NoFile", "score", "ROWS.csv: is required"},
        Refused{"MissingFile", "score none.csv", "none.csv: there is no such file"},
        Refused{"TwoFiles", "score good.csv typo.csv", "one argument too many"},
        Refused{"UnknownColumn", "score typo.csv", "did you mean micro_batch?"},
        Refused{"WithoutId", "score noid.csv", "noid.csv: id: is a column"},
        Refused{"OtherIsMissing", "score good.csv --calibrate-on none.csv", "none.csv: there is"},
        Refused{"OtherIsWrong", "score good.csv --calibrate-on typo.csv", "typo.csv: column"},
        Refused{"Flag", "score good.csv --calibrate rows.csv", "did you mean --calibrate-on?"}),
    [](const auto& each) { return each.param.name; });

/// The head and the rows whose ids begin so.
std::string published_rows(const std::string& ids) {
  std::istringstream published(
      file_text(PLANWRIGHT_SOURCE_DIR "/tests/data/measured/pretrain.csv"));
  std::string text;
  for (std::string line; std::getline(published, line);) {
    if (text.empty() || line.starts_with(ids)) text += line + "\n";
  }
  return text;
}

/// NVIDIA/Megatron-LM tests/functional_tests, golden values: allocated peaks under Megatron-FSDP on
/// three devices.
TEST_F(ScoreProcess, ForeseesMegatronFsdpsPublishedPeaks) {
  folder_.put("published.csv",
              published_rows("mlm-ci-gpt3-mcore-te-tp2-zp-z3-resume-fsdp-dtensor-"));
  const auto rows = scored("score published.csv");
  EXPECT_EQ(rows.size(), 4U);
  for (const auto& [id, row] : rows) {
    EXPECT_LT(std::abs(row["error"].get<double>()), 0.035) << row;
  }
}

/// pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md: reserved peaks of 8 and of 128
/// devices, in turn eager, compiled, which is foreseen as eager, and with products in 8 bits, which
/// keep what the others do.
TEST_F(ScoreProcess, ForeseesTorchtitansPublishedPeaks) {
  folder_.put("published.csv", published_rows("titan-202412-t"));
  const auto rows = scored("score published.csv");
  for (const char* devices : {"t1", "t3"}) {
    const Json& eager = rows.at(std::string("titan-202412-") + devices + "-0");
    EXPECT_LT(std::abs(eager["error"].get<double>()), 0.125) << eager;
    const Json& compiled = rows.at(std::string("titan-202412-") + devices + "-1");
    EXPECT_LT(std::abs(compiled["error"].get<double>()), 0.125) << compiled;
    EXPECT_EQ(compiled["assumed"].dump().find("compile changes nothing"), std::string::npos);
    const Json& narrow = rows.at(std::string("titan-202412-") + devices + "-2");
    EXPECT_LT(std::abs(narrow["error"].get<double>()), 0.06) << narrow;
  }
}

}  // namespace
}  // namespace planwright::testing
