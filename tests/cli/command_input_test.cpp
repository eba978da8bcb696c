#include "cli/command_input.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::cli {
namespace {

using testing::fault_of;
using testing::TestFolder;
using Words = std::vector<std::string>;

launcher::UserCommand read(const TestFolder& folder, const std::string& toml) {
  return read_user_command(read_toml_settings(folder.put("study.toml", toml)));
}

TEST(UserCommand, StandsInTheLaunchTable) {
  const TestFolder folder;
  folder.put("train.py", "");
  folder.put("train.yaml", "tp: {tp}\n");
  const auto user = read(folder, R"(
[launch]
command = ["torchrun", "train.py", "--mb", "{micro_batch}"]
template = "train.yaml"
observe = false
[launch.flags]
tp = "--tp {tp}"
zero = { 2 = ["--no reshard"], 3 = "" }
recompute = "--name 'a b'  \"it's\"\tc\\ d ''"
[launch.log]
lines = ["took {step_s} s"]
)");
  EXPECT_EQ(user.words,
            (Words{"torchrun", std::filesystem::path(folder / "train.py").lexically_normal(),
                   "--mb", "{micro_batch}"}))
      << "a word that names a file beside the settings is that file";
  ASSERT_EQ(user.flags.size(), 3u);
  EXPECT_EQ(user.flags[0].words.at(""), (Words{"--name", "a b", "it's", "c d", ""}))
      << "a shell's words";
  EXPECT_EQ(user.flags[1].words.at(""), (Words{"--tp", "{tp}"}));
  EXPECT_EQ(user.flags[2].words.at("2"), Words{"--no reshard"});
  EXPECT_EQ(user.flags[2].words.at("3"), Words{});
  ASSERT_EQ(user.templates.size(), 1u);
  EXPECT_EQ(user.templates[0].text, "tp: {tp}\n");
  EXPECT_FALSE(user.observe);
  EXPECT_EQ(user.logs.at(0).lines, Words{"took {step_s} s"});
}

TEST(UserCommand, BehindDashesIsAsItWasTyped) {
  const Words words{"sh", "-c", "a \"quoted\" 'word'\n", "{x}", "train.py"};
  Settings settings;
  settings.set(Table::launch, "command", setting_of_words(words));
  EXPECT_EQ(read_user_command(settings).words, words);
  EXPECT_EQ(fault_of([] { setting_of_words({"\xff"}); }).rule,
            "must be followed by words in UTF-8");
}

TEST(UserCommand, MayBeMissing) {
  EXPECT_TRUE(read_user_command({}).words.empty());
  EXPECT_TRUE(read_user_command({}).observe);
}

struct WrongTable {
  const char* toml;
  const char* key;
  const char* rule;  ///< a part of it
};

TEST(UserCommand, WrongTablesAreNamed) {
  const WrongTable cases[] = {
      {"[launch]\ncommand = \"torchrun train.py\"", "[launch] command", "list of texts in quotes"},
      {"[launch]\ncommand = []", "[launch] command", "at least one word"},
      {"[launch]\ncommand = [\"a\", 1]", "[launch] command", "list of texts in quotes"},
      {"[launch]\nflags = \"--x\"", "[launch] flags", "must be a table"},
      {"[launch.flags]\nzero = 3", "[launch] flags.zero", "must be words"},
      {"[launch.flags.zero]\n3 = 3", "[launch] flags.zero.3", "must be words"},
      {"[launch.flags]\nzero = { 2 = \"--name 'a\" }", "[launch] flags.zero.2", "not closed"},
      {"[launch.flags]\ntp = '--name \"a'", "[launch] flags.tp", "not closed"},
      {"[launch.flags]\ntp = '--name a\\'", "[launch] flags.tp", "ends in a backslash"},
      {"[launch.flags.zero]", "[launch] flags.zero", "at least one value"},
      {"[launch]\ntemplate = \"none.yaml\"", "", "no such file"},
      {"[launch.log]\nlines = [\"{stepp}\"]", "", ""},
      {"[launch]\ncommand = [\"\", \"a\"]", "[launch] command", "must begin with a program"},
      {"[launch]\ncommand = [\"--\", \"a\"]", "[launch] command", "must begin with a program"},
      {"[launch.log]\nlines = [\"took {number} s\"]", "[launch.log] lines", "yields nothing"},
      {"[launch.log]\nlines = [\"took {step_s}\", \"a line\"]", "[launch.log] lines", ""},
      {"[launch.log]\nlines = [\"at {step}: {loss}\"]", "[launch.log]", "measures nothing"},
      {"[launch]\nenvironment = { A = 1 }", "[launch] environment.A", "one text in quotes"},
      {"[launch]\nenvironment = { A = [\"x\"] }", "[launch] environment.A", "one text in quotes"},
      {"[launch]\nenvironment = { A = \"b,c\" }", "[launch] environment.A", "without commas"},
      {"[launch]\nenvironment = { \"A;id\" = \"b\" }", "[launch] environment", "is no variable"},
      {"[launch]\nenvironment = { 1A = \"b\" }", "[launch] environment", "is no variable"},
      {"[launch]\nenvironment = { A = \"b\\u0000\" }", "[launch] environment", "is no variable"},
      {"[launch]\nenvironment = [\"A=b\"]", "[launch] environment", "table of names and texts"},
      {"[launch]\nobserve = \"maybe\"", "[launch] observe", "on or off"},
  };
  const TestFolder folder;
  for (const WrongTable& each : cases) {
    const InputFault fault = fault_of([&] { read(folder, each.toml); });
    if (*each.key != 0) {
      EXPECT_EQ(fault.key, each.key) << each.toml;
    }
    EXPECT_NE(fault.rule.find(each.rule), std::string::npos) << each.toml << ": " << fault.rule;
    EXPECT_NE(fault.file, "") << each.toml;
  }
}

}  // namespace
}  // namespace planwright::cli
