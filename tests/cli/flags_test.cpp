#include "cli/flags.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::cli {
namespace {

using testing::fault_of;
using testing::TestFolder;

const Verb kOne{.name = "one",
                .summary = "Looks at one.",
                .arguments = "[FILE.toml]",
                .example = "planwright one --seq 8",
                .tables = {Table::model, Table::job, Table::candidate},
                .own = {"top", "steps"},
                .most_words = 1,
                .takes_file = true};
const Verb kMany{.name = "many",
                 .summary = "Looks at many.",
                 .arguments = "[FILE.toml]",
                 .example = "planwright many --tp 1,2",
                 .tables = {Table::space},
                 .axes = Table::space,
                 .most_words = 1,
                 .takes_file = true};
const Verb kWords{.name = "words",
                  .summary = "Takes words.",
                  .arguments = "A B",
                  .example = "planwright words a b",
                  .most_words = 2};

std::string text_of(const CommandLine& line, Table table, const char* name) {
  const Setting* setting = line.settings.find(table, name);
  return setting == nullptr ? "(not given)" : setting->text;
}

TEST(Flags, HaveTheirValuesBehindABlankOrAnEqualsSign) {
  const CommandLine line = read_command_line(kOne, {"--seq", "8", "--global-batch=4", "--top=3"});
  EXPECT_EQ(text_of(line, Table::job, "seq"), "8");
  EXPECT_EQ(text_of(line, Table::job, "global-batch"), "4");
  EXPECT_EQ(text_of(line, Table::none, "top"), "3");
  const Setting& seq = *line.settings.find(Table::job, "seq");
  EXPECT_EQ(seq.file, "command line");
  EXPECT_EQ(seq.key, "--seq");
}

TEST(Flags, OfAnAxisAreOneValueOrTheSpaceAsTheVerbSays) {
  EXPECT_EQ(text_of(read_command_line(kOne, {"--tp", "2"}), Table::candidate, "tp"), "2");
  EXPECT_EQ(text_of(read_command_line(kMany, {"--tp", "1,2"}), Table::space, "tp"), "1,2");
  EXPECT_EQ(text_of(read_command_line(kMany, {"--tp", "2"}), Table::candidate, "tp"),
            "(not given)");
}

TEST(Flags, AreDefaultsUnlessGiven) {
  const CommandLine line = read_command_line(kOne, {});
  EXPECT_FALSE(line.help);
  EXPECT_FALSE(line.common.json || line.common.quiet || line.common.verbose);
  EXPECT_EQ(line.common.color, ColorChoice::automatic);
  EXPECT_EQ(line.common.seed, 0u);
  const CommandLine all = read_command_line(
      kOne, {"--json", "--verbose", "--color", "never", "--seed", "18446744073709551"});
  EXPECT_TRUE(all.common.json && all.common.verbose);
  EXPECT_EQ(all.common.color, ColorChoice::never);
  EXPECT_EQ(all.common.seed, 18446744073709551u);
}

TEST(Flags, AskForHelpWhateverElseIsWrong) {
  for (const Arguments& arguments : {Arguments{"--help"}, {"-h"}, {"--nonsense", "--help"}}) {
    EXPECT_TRUE(read_command_line(kOne, arguments).help);
  }
}

TEST(Flags, OverrideTheFile) {
  const TestFolder folder;
  const std::string path =
      folder.put("s.toml", "[job]\nseq = 8\nglobal_batch = 4\n[space]\ntp = 1\n");
  const CommandLine line = read_command_line(kOne, {path, "--seq", "16"});
  EXPECT_EQ(text_of(line, Table::job, "seq"), "16");
  EXPECT_EQ(text_of(line, Table::job, "global-batch"), "4");
  EXPECT_EQ(line.settings.find(Table::job, "global-batch")->file, path);
  EXPECT_EQ(text_of(line, Table::space, "tp"), "1");
  EXPECT_TRUE(line.words.empty()) << "the file is no word any more";
  EXPECT_EQ(text_of(read_command_line(kMany, {"--tp", "2,4", path}), Table::space, "tp"), "2,4");
}

TEST(Flags, LeaveWordsToTheVerb) {
  EXPECT_EQ(read_command_line(kWords, {"a", "--json", "b"}).words, (Arguments{"a", "b"}));
  EXPECT_EQ(read_command_line(kWords, {"--", "a"}).words, (Arguments{"a"}));
  EXPECT_EQ(fault_of([] { read_command_line(kWords, {"a", "b", "c"}); }).key, "c");
}

struct BadLine {
  const char* name;
  Arguments arguments;
  const char* key;
  const char* rule;
  const char* nearest;
};

class BadFlags : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadFlags, AreNamedWithTheNearest) {
  const BadLine& row = GetParam();
  const InputFault fault = fault_of([&] { read_command_line(kOne, row.arguments); });
  EXPECT_EQ(fault.file, "command line");
  EXPECT_EQ(fault.key, row.key);
  EXPECT_NE(fault.rule.find(row.rule), std::string::npos) << fault.rule;
  EXPECT_EQ(fault.nearest, row.nearest);
}

const BadLine kBadLines[] = {
    {"Unknown", {"--sek", "8"}, "--sek", "is not a flag", "--seq"},
    {"UnknownWithValue", {"--sek=8"}, "--sek", "is not a flag", "--seq"},
    {"OtherVerbs", {"--probes", "8"}, "--probes", "not a flag of planwright one", ""},
    {"Twice", {"--seq", "8", "--seq=8"}, "--seq", "given twice", ""},
    {"NoValueAtTheEnd", {"--seq"}, "--seq", "needs a value", ""},
    {"NoValueBeforeAnother", {"--seq", "--json"}, "--seq", "needs a value", ""},
    {"EmptyValue", {"--seq="}, "--seq", "needs a value", ""},
    {"MarkWithAWord", {"--json=sure"}, "--json", "on or off", ""},
    {"Contradiction", {"--quiet", "--verbose"}, "--quiet", "contradicts", ""},
    {"SeedNoNumber", {"--seed", "x"}, "--seed", "whole number", ""},
    {"TwoFiles", {"a.toml", "b.toml"}, "b.toml", "one argument too many", ""},
};

INSTANTIATE_TEST_SUITE_P(Table, BadFlags, ::testing::ValuesIn(kBadLines),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(HelpText, HasSummaryUsageExampleAndEveryFlagOfTheVerb) {
  const std::string text = help_text(kOne);
  for (const char* part : {"Looks at one.", "planwright one [FILE.toml] [flags]",
                           "Example:\n  planwright one --seq 8", "[model]\n  --model PATH|NAME",
                           "[candidate]\n  --tp N", "--steps N", "--top N", "--json", "--help"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in\n" << text;
  }
  EXPECT_EQ(text.find("--devices"), std::string::npos);
  EXPECT_NE(help_text(kMany).find("--tp N"), std::string::npos);
  EXPECT_EQ(help_text(kMany).find("--plan"), std::string::npos);
}

}  // namespace
}  // namespace planwright::cli
