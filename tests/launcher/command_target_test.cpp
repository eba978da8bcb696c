#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/rules.h"
#include "launcher/targets/command/axes.h"
#include "launcher/targets/command/target.h"
#include "tests/support/emit_requests.h"
#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::targets::command {
namespace {

using launcher::LaunchConfig;
using launcher::UserCommand;
using testing::fault_of;
using Words = std::vector<std::string>;

UserCommand user(const Words& words) { return {.words = words}; }

launcher::EmitRequest request(const UserCommand& user, const Candidate& candidate) {
  auto request = testing::emit_request(kCommandTarget, "", candidate);
  request.plan.problem.target_version = target(user, "here").traits.version;
  request.user = user;
  return request;
}

TEST(CommandTarget, HasTheAxesThatTheCommandNames) {
  const UserCommand given{
      .words = {"train", "--mb={micro_batch}", "--tp", "{tp}", "{template}"},
      .flags = {{"zero", {{"2", {"--no-reshard"}}, {"3", {}}}}},
      .templates = {{"train.yaml", "checkpoint: {recompute}\nnodes: {nodes}\n"}}};
  EXPECT_EQ(named_axes(given), (Words{"tp", "zero", "micro_batch", "recompute"}));
  const SupportedAxes axes = supported_axes(given, "here");
  EXPECT_EQ(axes.zero, (std::vector<int>{2, 3})) << "those that have words";
  EXPECT_GT(axes.tp.size(), 4u);
  EXPECT_EQ(axes.pp, std::vector<int>{1}) << "not named";
  EXPECT_EQ(axes.recompute.size(), 2u);
}

struct WrongCommand {
  UserCommand user;
  const char* words;  ///< of the fault's key, value, rule and nearest
};

TEST(CommandTarget, RefusesWhatCannotBeFilledIn) {
  const WrongCommand cases[] = {
      {user({"train", "{micro_bach}"}),
       "{micro_bach}: is nothing that can be filled in (for these "
       "very letters write {{micro_bach}}); {micro_batch}"},
      {user({"train", "{cp}"}), "cp: is an axis that this version cannot estimate yet; "},
      {user({"train", "x{flags}"}),
       "x{flags}: {flags} stands for words: it must be one by itself; "},
      {user({"train", "{template}"}),
       "{template}: there is no template: name one with --template; "},
      {{.words = {"train", "{{template}}"}, .templates = {{"a.yaml", "{tp}"}}},
       "template = a.yaml: is read by nobody: put {template}, the path of its filled copy, into "
       "the "
       "command; "},
      {{.words = {"train", "{template}"}, .templates = {{"a.yaml", "me: {template}"}}},
       "template a.yaml = {template}: is filled in in the words of the command only; "},
      {{.words = {"train"}, .flags = {{"zero", {{"2", {"{flags}"}}}}}},
       "[launch.flags] zero = {flags}: is filled in in the words of the command only; "},
      {{.words = {"train"}, .flags = {{"zero", {{"2", {"{template}"}}}}}},
       "[launch.flags] zero = {template}: is filled in in the words of the command only; "},
      {{.words = {"train"}, .flags = {{"zerro", {{"", {"-z"}}}}}},
       "[launch.flags] zerro: is not an axis of a plan; zero"},
      {{.words = {"train"}, .flags = {{"zero", {{"four", {"-z"}}}}}},
       "[launch.flags] zero = four: must be a whole number; "},
      {{.words = {"train"}, .flags = {{"zero", {{"4", {"-z"}}}}}},
       "[launch.flags] zero = 4: is no value of this axis; "},
      {{.words = {"train"}, .flags = {{"sp", {{"yes", {"-s"}}}}}},
       "[launch.flags] sp = yes: must be on or off; "},
  };
  for (const WrongCommand& each : cases) {
    const InputFault fault = fault_of([&] { target(each.user, "study.toml"); });
    const std::string value = fault.value.empty() ? "" : " = " + fault.value;
    EXPECT_EQ(fault.key + value + ": " + fault.rule + "; " + fault.nearest, each.words);
    EXPECT_EQ(fault.file, "study.toml");
  }
  EXPECT_NE(fault_of([] { target({}, "command line"); }).rule.find("needs the command behind --"),
            std::string::npos);
}

TEST(CommandTarget, FillsItsWordsAndFiles) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = 2;
  candidate.micro_batch = 4;
  candidate.recompute = {RecomputeKind::full, 0, {}};
  const UserCommand given{.words = {"torchrun", "train.py", "{flags}", "--config", "{template}",
                                    "--mb={micro_batch}", "--ga={accumulation}", "--steps={steps}"},
                          .flags = {{"zero", {{"2", {"--shard", "{zero}"}}, {"3", {}}}},
                                    {"recompute", {{"", {"--recompute={recompute}"}}}}},
                          .templates = {{"/home/me/train.yaml", "seq: {seq}\nbraces: {{seq}}\n"}}};
  auto asked = request(given, candidate);
  asked.out = "out";
  asked.steps = 5;
  const LaunchConfig config = emit(asked);
  EXPECT_EQ(config.command, (Words{"torchrun", "train.py", "--shard", "2", "--recompute=full",
                                   "--config", "out/train.yaml", "--mb=4", "--ga=2", "--steps=5"}));
  EXPECT_EQ(testing::text_of(config, "train.yaml"), "seq: 4096\nbraces: {seq}\n");
  EXPECT_TRUE(testing::has_file(config, "launch.sh"));
}

TEST(CommandTarget, LeavesTheWholeCommandInThePlan) {
  Candidate candidate = testing::sharded_candidate();
  candidate.micro_batch = 8;
  const UserCommand given{
      .words = {"train", "{micro_batch}", "{template}"},
      .flags = {{"zero", {{"3", {"-z", "a b"}}, {"2", {}}}}},
      .templates = {{"a/t.yaml", "x: {tp}\n"}},
      .logs = {{.name = "s.toml", .lines = {"{step_s} s"}, .ignored = {"eval"}}},
      .observe = false,
      .environment = {{"A", "it's"}}};
  const testing::TestFolder folder;
  auto asked = request(given, candidate);
  asked.out = folder.path();
  write_files(emit(asked), false);
  EXPECT_EQ(launcher::load_plan_command(folder / "plan.json"), given);
  EXPECT_EQ(launcher::load_plan_file(folder / "plan.json"), asked.plan);
}

TEST(CommandTarget, PutsFlagsAtTheEndUnlessTheyAreGivenAPlace) {
  Candidate candidate = testing::sharded_candidate();
  candidate.micro_batch = 8;
  const UserCommand given{.words = {"train"},
                          .flags = {{"micro_batch", {{"", {"-b{micro_batch}"}}}}}};
  EXPECT_EQ(emit(request(given, candidate)).command, (Words{"train", "-b8"}));
}

TEST(CommandTarget, RefusesPlansThatTheCommandHasNoWordsFor) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.micro_batch = 8;
  const UserCommand given{.words = {"train", "{micro_batch}"},
                          .flags = {{"zero", {{"2", {"-2"}}, {"3", {}}}}}};
  EXPECT_NE(testing::refusal(emit, request(given, candidate)).find("no words"), std::string::npos)
      << "for zero 0";
  candidate.zero = 2;
  EXPECT_EQ(testing::refusal(emit, request(given, candidate)), "");
  candidate.micro_batch = 4;
  EXPECT_NE(testing::refusal(emit, request(given, candidate)).find("2 micro-batches of 4"),
            std::string::npos)
      << "the command is not told of accumulation";
  auto free = request(given, candidate);
  free.plan.problem.workload.global_batch = 0;
  EXPECT_EQ(testing::refusal(emit, free), "") << "a step is as many as the plan takes at once";
  auto unnamed = free;
  unnamed.user.words.pop_back();
  EXPECT_NE(testing::refusal(emit, unnamed).find("does not name it"), std::string::npos);
}

TEST(CommandTarget, SaysWhichAxisTheCommandLacks) {
  const UserCommand given{.words = {"train", "{micro_batch}"},
                          .flags = {{"zero", {{"2", {"-2"}}, {"3", {}}}}}};
  const auto fix = [&](auto Candidate::*axis, auto value) {
    const launcher::EmitRequest at = request(given, Candidate{});
    Candidate candidate;
    candidate.*axis = value;
    return broken_rule(at.plan.problem, target(given, "").traits, candidate)->fix;
  };
  EXPECT_EQ(fix(&Candidate::tp, 2), "the command names tp neither in braces nor in [launch.flags]");
  EXPECT_EQ(fix(&Candidate::zero, 1), "use zero 2 or 3");
  EXPECT_EQ(fix(&Candidate::cp, 2), "use cp 1") << "no command may name it";
}

TEST(CommandTarget, TwoCommandsAreTwoVersions) {
  const auto version = [](const UserCommand& user) { return target(user, "").traits.version; };
  UserCommand given = user({"python", "train me.py", "{micro_batch}"});
  EXPECT_EQ(version(given), "python 'train me.py' '{micro_batch}'");
  const std::string before = version(given);
  given.flags = {{"zero", {{"3", {"-z"}}}}};
  EXPECT_EQ(version(given), before + " [zero 3: -z]");
  given.environment = {{"A", "1 2"}, {"B", ""}};
  EXPECT_EQ(version(given), before + " [zero 3: -z] [environment A='1 2' B='']");
  given.words.emplace_back("{template}");
  given.templates = {{"a", "text"}};
  const std::string one = version(given);
  given.templates = {{"a", "another"}};
  EXPECT_NE(version(given), one);
}

TEST(CommandTarget, IsEstimatedByStandIns) {
  const launcher::Target made = target(user({"train", "{micro_batch}"}), "");
  EXPECT_TRUE(made.traits.stand_in_kernels);
  EXPECT_FALSE(made.has_worker);
  EXPECT_EQ(made.traits.recipe(Precision::bf16)->storage, DType::fp32) << "autocast";
  EXPECT_EQ(made.traits.recipe(Precision::fp8), std::nullopt);
}

}  // namespace
}  // namespace planwright::targets::command
