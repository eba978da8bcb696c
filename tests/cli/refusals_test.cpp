#include <fmt/core.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cli/flags.h"
#include "cli/problem_input.h"
#include "cli/targets.h"
#include "command.h"
#include "estimator/spec/error.h"
#include "estimator/spec/rules.h"
#include "golden.h"

/// What each target refuses, in the words that a user reads: the rule, and what to do. Of every
/// combination of a target and a plan those that it does not run are in golden/refusals.txt.
namespace planwright::cli {
namespace {

const Verb kVerb{.name = "estimate",
                 .summary = "",
                 .arguments = "",
                 .example = "",
                 .tables = {Table::model, Table::cluster, Table::job, Table::candidate}};

/// Of one axis or two, or of the job. Where a target runs it there is no line.
const std::vector<std::string>& plans() {
  static const std::vector<std::string> kPlans{
      "--tp 16",
      "--tp 3",
      "--dp 3",
      "--micro-batch 3",
      "--pp 64 --devices 64",
      "--tp 8 --model qwen2.5-7b",
      "--tp 2 --zero 3",
      "--sp on",
      "--sp on --tp 2 --zero 3",
      "--pp 2 --zero 3",
      "--pp 2 --schedule gpipe --zero 2",
      "--pp 2 --schedule zb",
      "--pp 2 --vpp 2 --schedule interleaved --global-batch 12 --devices 4",
      "--pp 4 --zero 2 --global-batch 4",
      "--vpp 2",
      "--cp 2",
      "--cp 2 --seq 4095",
      "--ep 2",
      "--etp 2",
      "--zero 1",
      "--zero 2",
      "--zero 3",
      "--hsdp 2",
      "--hsdp 3 --zero 3",
      "--recompute selective",
      "--recompute selective:mlp",
      "--recompute op",
      "--recompute chunk:3",
      "--recompute alternate:2",
      "--recompute first:64",
      "--offload optimizer --zero 0",
      "--offload params --zero 2",
      "--offload optimizer+params --zero 3 --offload-to nvme",
      "--offload activations",
      "--attention eager",
      "--loss fused",
      "--loss chunked",
      "--precision fp8 --device A100-SXM4-80GB",
      "--grad-dtype fp16",
      "--grad-dtype bf16",
      "--state-dtype bf16",
      "--master-weights off",
      "--hidden-dropout 0.1",
      "--optimizer lion",
      "--optimizer adafactor --zero 3",
      "--optimizer adam8bit",
      "--job lora",
      "--job qlora --quant nf4",
      "--seq 3000 --model opt-13b",
      "--model mixtral-8x7b",
      "--model deepseek-v3",
      "--model mamba-2.8b",
      "--model gemma-2-9b",
      "--model bloom-7b1",
  };
  return kPlans;
}

/// `flags` over a plan that every target runs; of those whose optimizer of bf16 shards always, in
/// fp16.
Arguments arguments_of(const std::string& target, const std::string& flags) {
  std::map<std::string, std::string> values{
      {"--model", "llama-3.1-8b"},
      {"--device", "H100-SXM5-80GB"},
      {"--devices", "8"},
      {"--seq", "4096"},
      {"--global-batch", "64"},
      {"--micro-batch", "1"},
      {"--target", target},
      {"--precision", target == "megatron-deepspeed" ? "fp16" : "bf16"}};
  const std::vector<std::string> words = testing::words(flags);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) values[words[i]] = words[i + 1];
  Arguments arguments;
  for (const auto& [flag, value] : values) {
    arguments.push_back(flag);
    arguments.push_back(value);
  }
  return arguments;
}

std::string refusal(const std::string& target, const std::string& flags) {
  try {
    const CommandLine line = read_command_line(kVerb, arguments_of(target, flags));
    const OneCandidate one = read_one_candidate(line.settings);
    const auto broken = broken_rule(one.input.problem, one.input.traits(), one.candidate);
    return broken ? reason_text(*broken) : "";
  } catch (const InputError& error) {
    return error.what();
  }
}

TEST(Refusals, NameTheRuleAndAFix) {
  std::string all;
  int count = 0;
  for (const std::string& target : target_names()) {
    if (target == kCommandTarget) continue;
    EXPECT_EQ(refusal(target, ""), "") << target;
    for (const std::string& flags : plans()) {
      const std::string said = refusal(target, flags);
      if (said.empty()) continue;
      ++count;
      EXPECT_EQ(said.find('{'), std::string::npos) << said;
      all += fmt::format("{} {}\n  {}\n", target, flags, said);
    }
  }
  EXPECT_GE(count, 100);
  testing::expect_golden("refusals", all);
}

/// Degrees and batches that nothing divides, two of each axis in turn.
std::vector<Candidate> strange_candidates(const Candidate& base) {
  std::vector<Candidate> all{base};
  const auto vary = [&](auto field, const auto& values) {
    const std::vector<Candidate> before = all;
    for (const Candidate& each : before) {
      for (const auto& value : values) {
        all.push_back(each);
        all.back().*field = value;
      }
    }
  };
  using Numbers = std::vector<int>;
  vary(&Candidate::tp, Numbers{64});
  vary(&Candidate::pp, Numbers{7, 200});
  vary(&Candidate::vpp, Numbers{5});
  vary(&Candidate::ep, Numbers{6});
  vary(&Candidate::etp, Numbers{5});
  vary(&Candidate::dp, Numbers{9});
  vary(&Candidate::hsdp, Numbers{4});
  vary(&Candidate::micro_batch, Numbers{11});
  vary(&Candidate::recompute,
       std::vector<Recompute>{parse_recompute("full", "", ""), parse_recompute("chunk:3", "", ""),
                              parse_recompute("first:500", "", "")});
  return all;
}

TEST(Rules, MayBeAskedOfAnyCandidateWhateverElseItBreaks) {
  std::size_t broken = 0;
  for (const std::string& target : target_names()) {
    if (target == kCommandTarget) continue;
    for (const char* model : {"llama-3.1-8b", "mixtral-8x7b", "deepseek-v3", "mamba-2.8b",
                              "gemma-2-9b", "bloom-7b1", "opt-13b", "gpt2"}) {
      const std::string flags = std::string("--model ") + model + " --seq 1000";
      const CommandLine line = read_command_line(kVerb, arguments_of(target, flags));
      const OneCandidate one = read_one_candidate(line.settings);
      const std::vector<Rule> rules = rules_for(one.input.traits());
      for (const Candidate& each : strange_candidates(one.candidate)) {
        broken += static_cast<std::size_t>(
            std::count_if(rules.begin(), rules.end(),
                          [&](const Rule& rule) { return rule.broken(one.input.problem, each); }));
      }
    }
  }
  EXPECT_GT(broken, 0u);
}

}  // namespace
}  // namespace planwright::cli
