#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "estimator/spec/error.h"
#include "launcher/plan_file.h"
#include "launcher/shell.h"
#include "launcher/targets/accelerate/emit.h"
#include "launcher/targets/accelerate/rules.h"
#include "launcher/targets/deepspeed/emit.h"
#include "launcher/targets/deepspeed/rules.h"
#include "launcher/targets/fsdp/emit.h"
#include "launcher/targets/fsdp/rules.h"
#include "launcher/targets/hf_trainer/emit.h"
#include "launcher/targets/hf_trainer/rules.h"
#include "launcher/targets/megatron/emit.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/megatron_deepspeed/emit.h"
#include "launcher/targets/megatron_deepspeed/rules.h"
#include "launcher/targets/nanotron/emit.h"
#include "launcher/targets/nanotron/rules.h"
#include "launcher/targets/pytorch/emit.h"
#include "launcher/targets/pytorch/rules.h"
#include "launcher/targets/torchtitan/emit.h"
#include "launcher/targets/torchtitan/rules.h"
#include "tests/support/emit_requests.h"
#include "tests/support/test_folder.h"

namespace planwright::targets {
namespace {

namespace fs = std::filesystem;
using launcher::EmitRequest;
using launcher::LaunchConfig;

struct Emitter {
  const char* target;
  const char* version;
  LaunchConfig (*emit)(const EmitRequest&);
  std::vector<Rule> (*rules)();
  int zero = 3;
  bool has_script = false;  ///< of its own
};

const Emitter kEmitters[] = {
    {"deepspeed", "0.19.8", deepspeed::emit, deepspeed::emit_rules},
    {"accelerate", "1.15.0", accelerate::emit, accelerate::emit_rules},
    {"hf-trainer", "5.23.0", hf_trainer::emit, hf_trainer::emit_rules},
    {"fsdp", "2.11.0", fsdp::emit, fsdp::emit_rules},
    {"torchtitan", "0.2.2", torchtitan::emit, torchtitan::emit_rules, 3, true},
    {"torchtitan", "0.3.0", torchtitan::emit, torchtitan::emit_rules, 3, true},
    {"megatron", "0.14.0", megatron::emit, megatron::emit_rules, 1, true},
    {"megatron", "0.19.2", megatron::emit, megatron::emit_rules, 1, true},
    {"nanotron", "0.4", nanotron::emit, nanotron::emit_rules, 1, true},
    {"megatron-deepspeed", "0.5.10", megatron_deepspeed::emit, megatron_deepspeed::emit_rules, 1,
     true},
    {"pytorch", "2.11.0", pytorch::emit, pytorch::emit_rules},
};

EmitRequest request_of(const Emitter& emitter) {
  Candidate candidate = testing::sharded_candidate();
  candidate.zero = emitter.zero;
  return testing::emit_request(emitter.target, emitter.version, candidate);
}

TEST(EveryEmitter, SaysTheSameEachTime) {
  for (const Emitter& each : kEmitters) {
    EXPECT_EQ(each.emit(request_of(each)), each.emit(request_of(each))) << each.target;
  }
}

TEST(EveryEmitter, SaysWhatTheFilesWereDerivedFrom) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    request.plan.evidence.study = "night";
    request.plan.evidence.trial = 7;
    request.plan.evidence.kind = launcher::EvidenceKind::measured;
    const LaunchConfig config = each.emit(request);
    const std::string hash = problem_hash(request.plan.problem);

    const Json origin = testing::json_of(config, "origin.json");
    EXPECT_EQ(origin.at("problem"), hash);
    EXPECT_EQ(origin.at("candidate"), candidate_hash(request.plan.candidate));
    EXPECT_EQ(origin.at("evidence"),
              Json::parse(R"({"kind":"measured","study":"night","trial":7})"));
    EXPECT_EQ(origin.at("target"), each.target);
    EXPECT_NE(origin.at("planwright"), "");
    for (const launcher::EmittedFile& file : config.files) {
      if (file.path.ends_with(".json")) continue;
      EXPECT_NE(file.text.find("# problem: " + hash), std::string::npos) << file.path;
      EXPECT_NE(file.text.find("# evidence: measured; study night, trial 7"), std::string::npos);
    }
    EXPECT_EQ(config.evidence, launcher::EvidenceKind::measured);
    EXPECT_FALSE(testing::warns(config, "predicted"));
    EXPECT_TRUE(testing::warns(each.emit(request_of(each)), "predicted, not measured"));
  }
}

TEST(EveryEmitter, LeavesAPlanFileThatIsThePlan) {
  for (const Emitter& each : kEmitters) {
    const testing::TestFolder folder;
    EmitRequest request = request_of(each);
    request.out = folder.path();
    write_files(each.emit(request), false);
    EXPECT_EQ(launcher::load_plan_file(folder / "plan.json"), request.plan) << each.target;
  }
}

TEST(EveryEmitter, LaunchesInTheUsersEnvironment) {
  for (const Emitter& each : kEmitters) {
    const testing::TestFolder folder;
    EmitRequest request = request_of(each);
    request.out = folder.path();
    int number = 0;
    for (const std::string& text : testing::hostile_texts()) {
      request.user.environment["T" + std::to_string(number++)] = text;
    }
    const LaunchConfig config = each.emit(request);
    const Json origin = testing::json_of(config, "origin.json");
    for (const auto& [name, value] : request.user.environment) {
      EXPECT_EQ(config.environment.at(name), value) << each.target;
      EXPECT_EQ(origin.at("environment").at(name), value) << each.target;
      for (const launcher::EmittedFile& file : config.files) {
        if (!file.is_program) continue;
        const std::string line = launcher::shell_line({}, {{name, value}});
        EXPECT_NE(file.text.find("export " + line + "\n"), std::string::npos) << file.path;
      }
    }
    testing::words_of_script(testing::text_of(config, "launch.sh"));
    write_files(config, false);
    EXPECT_EQ(launcher::load_plan_command(folder / "plan.json"), request.user) << each.target;
  }
}

TEST(EveryEmitter, ThreadsOnACpuAreThePlans) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    request.plan.problem.cluster.device.kind = DeviceKind::cpu;
    request.plan.problem.cluster.threads_per_rank = 3;
    const std::string refused = testing::refusal(each.emit, request);
    if (!refused.empty()) continue;  // it does not train there
    EXPECT_EQ(each.emit(request).environment.at("OMP_NUM_THREADS"), "3") << each.target;
    request.user.environment = {{"OMP_NUM_THREADS", "3"}};
    EXPECT_EQ(testing::refusal(each.emit, request), "") << each.target;
    request.user.environment = {{"OMP_NUM_THREADS", "4"}};
    EXPECT_EQ(
        testing::refusal(each.emit, request),
        std::string("contradicts the plan, with which target ") + each.target + " sets it to 3");
  }
}

/// What a person writes who means these very letters: {{name}} for {name}.
std::string with_doubled_names(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\{([a-z_]+)\})"), "{{$1}}");
}

/// The command as its script has it.
std::vector<std::string> beside_script(const LaunchConfig& config) {
  std::vector<std::string> words = config.command;
  for (std::string& word : words) {
    for (const launcher::EmittedFile& file : config.files) {
      if (word == file.path) word = "HERE/" + fs::path(word).filename().string();
    }
  }
  return words;
}

TEST(EveryEmitter, KeepsHostileTextsApartFromSyntax) {
  for (const Emitter& each : kEmitters) {
    for (const std::string& text : testing::hostile_texts()) {
      EmitRequest request = request_of(each);
      request.plan.evidence.study = request.plan.problem.model.name = text;
      request.plan.problem.cluster.device.name = text;
      const std::string given = with_doubled_names(text);
      request.user.words = {"train " + given, given, "last"};
      request.out = "o " + text;
      const LaunchConfig config = each.emit(request);

      const Json origin = testing::json_of(config, "origin.json");
      EXPECT_EQ(origin.at("evidence").at("study"), text);
      EXPECT_EQ(origin.at("command"), Json(config.command));
      EXPECT_EQ(testing::words_of_script(testing::text_of(config, "launch.sh")),
                beside_script(config));
      const auto n = config.command.size();
      EXPECT_EQ(config.command[n - 2], text);
      EXPECT_EQ(config.command[n - 1], "last");
    }
  }
}

TEST(EveryEmitter, FillsThePlansValuesIntoTheScriptsArguments) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    request.user.words = {"train.py", "--seq={seq}", "--steps={steps}"};
    request.steps = 7;
    const LaunchConfig config = each.emit(request);
    const auto n = config.command.size();
    EXPECT_EQ(config.command[n - 2], "--seq=4096");
    EXPECT_EQ(config.command[n - 1], "--steps=7");
    EXPECT_FALSE(testing::warns(config, "--steps"));
    request.steps = 0;
    const LaunchConfig unsaid = each.emit(request);
    EXPECT_EQ(unsaid.command.back(), "--steps=STEPS") << "a job does not end after a probe's";
    EXPECT_TRUE(testing::warns(unsaid, "{steps}", "--steps N, or")) << each.target;
    request.user.words.emplace_back("{sequence}");
    EXPECT_NE(testing::refusal(each.emit, request).find("{sequence}, which is nothing"),
              std::string::npos);
  }
}

/// What a script does before it replaces itself: where it is, and where the command runs.
std::string start_of_script(const Emitter& emitter, const std::string& out) {
  EmitRequest request = request_of(emitter);
  request.folder = "/home/me/it's";
  request.out = out;
  for (const launcher::EmittedFile& file : emitter.emit(request).files) {
    EXPECT_EQ(file.is_program, file.path.ends_with(".sh")) << file.path;
    const std::size_t cd = file.text.find("\ncd ");
    if (file.path.ends_with("launch.sh") && cd != std::string::npos) {
      return file.text.substr(cd + 1, file.text.find('\n', cd + 1) - cd - 1);
    }
  }
  return "";
}

TEST(EveryEmitter, StartsItsCommandWhereEmitWasRun) {
  for (const Emitter& each : kEmitters) {
    EXPECT_EQ(start_of_script(each, "."), R"(cd -- "$here" || exit)");
    EXPECT_EQ(start_of_script(each, "a/b/"), R"(cd -- "$here"/../.. || exit)");
    EXPECT_EQ(start_of_script(each, "/home/me/it's/a"), R"(cd -- "$here"/.. || exit)");
    const char* const elsewhere = R"(cd -- '/home/me/it'\''s' || exit)";
    EXPECT_EQ(start_of_script(each, "../x"), elsewhere);
    EXPECT_EQ(start_of_script(each, "/tmp/x"), elsewhere);
  }
}

/// As Slurm runs a batch script: from a folder of its daemon.
TEST(EveryEmitter, ACopyOfItsScriptSaysThatItIsOne) {
  const testing::TestFolder daemon;
  daemon.put("script", testing::text_of(kEmitters[1].emit(request_of(kEmitters[1])), "launch.sh"));
  FILE* const pipe = popen(("sh " + (daemon / "script") + " 2>&1").c_str(), "r");
  std::string said(200, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), pipe));
  EXPECT_EQ(WEXITSTATUS(pclose(pipe)), 1);
  EXPECT_NE(said.find("is a copy without plan.json beside it"), std::string::npos) << said;
}

TEST(EveryEmitter, TakesNothingForAnOption) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    request.user.words = {"-c.py"};
    request.out = "-o";
    const LaunchConfig config = each.emit(request);
    for (const launcher::EmittedFile& file : config.files) EXPECT_EQ(file.path[0], '.');
    EXPECT_EQ(std::count(config.command.begin(), config.command.end(), "./-c.py"), 1);
  }
}

TEST(EveryEmitter, ShowsWhereAScriptBelongs) {
  for (const Emitter& each : kEmitters) {
    const LaunchConfig config = each.emit(request_of(each));
    const bool named =
        testing::text_of(config, "launch.sh").find("YOUR_SCRIPT.py") != std::string::npos;
    EXPECT_EQ(named, testing::warns(config, "YOUR_SCRIPT.py")) << each.target;
    EXPECT_EQ(named, !each.has_script) << each.target;
  }
}

TEST(EveryEmitter, StartsTheSameLineOnEachOfSeveralNodes) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    request.plan.problem.cluster.nodes = 2;
    request.plan.candidate.dp = 16;
    const LaunchConfig config = each.emit(request);
    std::string all;
    for (const launcher::EmittedFile& file : config.files) all += file.text;
    EXPECT_NE(all.find("HEAD_NODE"), std::string::npos) << each.target;
    EXPECT_NE(all.find("c10d"), std::string::npos) << each.target;
    EXPECT_TRUE(testing::warns(config, "HEAD_NODE", "2 nodes")) << each.target;
  }
}

TEST(EveryEmitter, SaysWhichVersionItWasCheckedWith) {
  for (const Emitter& each : kEmitters) {
    EmitRequest request = request_of(each);
    EXPECT_FALSE(testing::warns(each.emit(request), "checked with")) << each.target;
    request.plan.problem.target_version = "0.1.7";
    EXPECT_TRUE(testing::warns(each.emit(request), "checked with", "the plan is for 0.1.7"));
  }
}

TEST(EveryEmitter, RefusesWhatNoTargetCanHave) {
  for (const Emitter& each : kEmitters) {
    testing::expect_refused(
        each.emit, request_of(each),
        {{[](Problem& p, Candidate&) { p.cluster.per_node = 4; }, {"dp 8", "4 devices"}},
         {[](Problem& p, Candidate&) { p.workload.global_batch = 60; }, {"global batch of 60"}},
         {[](Problem& p, Candidate&) { p.workload.job = Job::inference; }, {"inference"}},
         {[](Problem&, Candidate& c) { c.ep = 2; }, {"ep 2"}},
         {[](Problem&, Candidate& c) {
            c.knobs = {{"colour", "red"}};
          },
          {"knob"}},
         {[](Problem& p, Candidate&) { p.workload.precision = Precision::fp8; },
          {"precision fp8"}}});
  }
}

/// A rule without a fix is one that another target has no trouble with.
TEST(EveryEmitter, HasRulesWithNamesWordsAndSources) {
  for (const Emitter& each : kEmitters) {
    const EmitRequest request = request_of(each);
    std::set<std::string> names;
    for (const Rule& rule : each.rules()) {
      EXPECT_TRUE(names.insert(rule.name).second) << each.target << " " << rule.name;
      EXPECT_NE(rule.source, "") << rule.name;
      EXPECT_NE(rule.text, "") << rule.name;
      for (const std::string& text : {rule.text, rule.fix}) {
        const auto filled = fill_rule_text(text, request.plan.problem, request.plan.candidate);
        EXPECT_EQ(filled.find('{'), std::string::npos) << filled;
      }
    }
  }
}

}  // namespace
}  // namespace planwright::targets
