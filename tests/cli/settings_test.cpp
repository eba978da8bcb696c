#include "cli/settings.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "cli/launch_folder.h"
#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::cli {
namespace {

using testing::fault_of;
using testing::TestFolder;

std::string text_of(const Settings& settings, Table table, const char* name) {
  const Setting* setting = settings.find(table, name);
  return setting == nullptr ? "(not given)" : setting->text;
}

TEST(Keys, HaveOneNameEachAndOneTable) {
  std::set<std::string_view> names;
  for (const Key& key : all_keys()) {
    EXPECT_TRUE(names.insert(key.name).second) << key.name;
    EXPECT_EQ(flag_spelling(toml_spelling(key.name)), key.name);
    EXPECT_FALSE(key.help.empty()) << key.name;
    EXPECT_EQ(key.argument.empty(), key.shape == Shape::mark) << key.name;
  }
}

TEST(Keys, SayWhereFilesGoIfNobodyDoes) {
  EXPECT_TRUE(find_key("out")->help.ends_with(std::string("[") + kLaunchFolder + "]"));
}

TEST(Keys, OfACandidateAreKeysOfTheSpaceToo) {
  EXPECT_TRUE(belongs(*find_key("micro-batch"), Table::space));
  EXPECT_TRUE(belongs(*find_key("micro-batch"), Table::candidate));
  EXPECT_FALSE(belongs(*find_key("plan"), Table::space));
  EXPECT_FALSE(belongs(*find_key("seq"), Table::space));
  EXPECT_FALSE(belongs(*find_key("json"), Table::none));
}

TEST(TomlSettings, HaveTheTextsThatFlagsWouldHave) {
  const TestFolder folder;
  folder.put("llama.json", "{}");
  const std::string path = folder.put("study.toml", R"(
[model]
model = "llama.json"
[cluster]
devices = 2
memory = "1GiB"
[job]
master_weights = true
[candidate]
sp = "off"
[space]
zero = [0, 1]
recompute = ["none", "full"]
micro_batch = 4
[launch]
environment = {A = "1", B = "two"}
[budget]
no_benchmark = true
[storage]
storage = "db/x.db"
)");
  const Settings settings = read_toml_settings(path);
  const std::string home = std::filesystem::path(folder.path()).lexically_normal();
  EXPECT_EQ(text_of(settings, Table::model, "model"), home + "/llama.json");
  EXPECT_EQ(text_of(settings, Table::cluster, "devices"), "2");
  EXPECT_EQ(text_of(settings, Table::job, "master-weights"), "on");
  EXPECT_EQ(text_of(settings, Table::candidate, "sp"), "off");
  EXPECT_EQ(text_of(settings, Table::space, "zero"), "0,1");
  EXPECT_EQ(text_of(settings, Table::space, "recompute"), "none,full");
  EXPECT_EQ(text_of(settings, Table::space, "micro-batch"), "4");
  EXPECT_EQ(parse_pairs(*settings.find(Table::launch, "environment")),
            (std::map<std::string, std::string>{{"A", "1"}, {"B", "two"}}));
  EXPECT_TRUE(settings.marked(Table::budget, "no-benchmark"));
  EXPECT_EQ(text_of(settings, Table::storage, "storage"), home + "/db/x.db");
  EXPECT_EQ(settings.find(Table::cluster, "memory")->key, "[cluster] memory");
  EXPECT_EQ(settings.find(Table::cluster, "memory")->file, path);
}

TEST(TomlSettings, KeepANameThatIsNoPathBesideTheFile) {
  const TestFolder folder;
  const Settings settings =
      read_toml_settings(folder.put("study.toml", "[model]\nmodel = \"llama-2-7b\"\n"));
  EXPECT_EQ(text_of(settings, Table::model, "model"), "llama-2-7b");
}

struct BadFile {
  const char* name;
  const char* text;
  const char* key;
  const char* rule;
  const char* nearest;
};

class BadToml : public ::testing::TestWithParam<BadFile> {};

TEST_P(BadToml, IsRefusedByItsKeyAndRule) {
  const BadFile& row = GetParam();
  const TestFolder folder;
  const std::string path = folder.put("study.toml", row.text);
  const InputFault fault = fault_of([&] { read_toml_settings(path); });
  EXPECT_EQ(fault.file.rfind(path, 0), 0u) << fault.file;
  EXPECT_EQ(fault.key, row.key);
  EXPECT_NE(fault.rule.find(row.rule), std::string::npos) << fault.rule;
  EXPECT_EQ(fault.nearest, row.nearest);
}

const BadFile kBadFiles[] = {
    {"NotToml", "[model\nmodel = 1", "", "is not TOML", ""},
    {"DuplicateKey", "[job]\nseq = 1\nseq = 2\n", "", "is not TOML", ""},
    {"UnknownTable", "[modle]\n", "modle", "is not one of the tables", "[model]"},
    {"ValueOutsideTables", "model = \"x\"\n", "model", "must be a table", ""},
    {"UnknownKey", "[job]\nglbal_batch = 8\n", "[job] glbal_batch", "is not a key", "global_batch"},
    {"FlagSpelling", "[job]\n\"global-batch\" = 8\n", "[job] global-batch", "is not a key",
     "global_batch"},
    {"KeyOfAnotherTable", "[model]\nseq = 8\n", "[model] seq", "but in [job]", ""},
    {"FlagOnly", "[job]\njson = true\n", "[job] json", "is not a key", ""},
    {"TextForNumber", "[job]\nseq = \"8\"\n", "[job] seq", "whole number, without quotes", ""},
    {"FractionForNumber", "[job]\nseq = 8.5\n", "[job] seq", "whole number", ""},
    {"NumberForText", "[job]\nprecision = 16\n", "[job] precision", "text in quotes", ""},
    {"BareSize", "[cluster]\nmemory = 16\n", "[cluster] memory", "text in quotes", ""},
    {"NumberForToggle", "[candidate]\nsp = 1\n", "[candidate] sp", "text in quotes", ""},
    {"TextForMark", "[budget]\nno_benchmark = \"yes\"\n", "[budget] no_benchmark", "true or false",
     ""},
    {"ListForOne", "[job]\nseq = [8]\n", "[job] seq", "not a list", ""},
    {"ListInCandidate", "[candidate]\ntp = [1, 2]\n", "[candidate] tp", "lists stand in [space]",
     ""},
    {"EmptyList", "[space]\ntp = []\n", "[space] tp", "at least one value", ""},
    {"MixedList", "[space]\ntp = [1, \"2\"]\n", "[space] tp", "whole number", ""},
    {"PlanInSpace", "[space]\nplan = \"x\"\n", "[space] plan", "but in [candidate]", ""},
    {"EmptyText", "[storage]\nstudy = \"\"\n", "[storage] study", "must not be empty", ""},
    {"PairsNoTable", "[launch]\nenvironment = \"A=1\"\n", "[launch] environment", "table of names",
     ""},
    {"PairsNoText", "[launch]\nenvironment = {A = 1}\n", "[launch] environment.A",
     "must be one text in quotes", ""},
};

INSTANTIATE_TEST_SUITE_P(Table, BadToml, ::testing::ValuesIn(kBadFiles),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(TomlSettings, NameAFileThatIsNoFile) {
  const TestFolder folder;
  EXPECT_EQ(fault_of([&] { read_toml_settings(folder / "none.toml"); }).rule,
            "there is no such file");
  EXPECT_EQ(fault_of([&] { read_toml_settings(folder.path()); }).rule, "is a folder, not a file");
  EXPECT_EQ(fault_of([&] { read_toml_settings("/dev/null"); }).rule, "is not a regular file");
}

TEST(Lists, AreSplitAtSingleCommas) {
  const auto parts = split_list({"1,2,4", "f", "--tp"});
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[2].text, "4");
  EXPECT_EQ(parts[2].key, "--tp");
  for (const char* text : {"", ",", "1,", ",1", "1,,2"}) {
    EXPECT_THROW(split_list({text, "f", "--tp"}), InputError) << text;
  }
  EXPECT_THROW(parse_pairs({"A", "f", "k"}), InputError);
  EXPECT_THROW(parse_pairs({"=1", "f", "k"}), InputError);
  EXPECT_THROW(parse_pairs({"A=1,A=1", "f", "k"}), InputError);
}

}  // namespace
}  // namespace planwright::cli
