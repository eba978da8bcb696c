#include "launcher/config_diff.h"

#include <gtest/gtest.h>

#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::fault_of;

const std::string kJson =
    R"({"zero": {"stage": 2, "bucket": 500000000}, "list": [1, "a"], "x": true})";

LaunchConfig planned() {
  LaunchConfig config;
  config.files = {{"out/ds_config.json", kJson},
                  {"out/args.yaml", "a: true\nb: 3\nc: 'no'\nd: {e: 1.5}\n"},
                  {"out/job.toml", "[model]\nname = \"x\"\n"},
                  {"out/plan.json", "{}"}};
  return config;
}

struct Case {
  const char* name;
  std::string text;
  std::vector<ConfigDifference> differences;
  std::vector<std::string> own{};
};

TEST(ConfigDifferences, AreByKeyAndOfMeaning) {
  const Case cases[] = {
      {"ds_config.json", kJson, {}},
      {"mine.json", R"({"x": true, "list": [1.0, "a"], "zero": {"bucket": 5e8, "stage": 2}})", {}},
      {"mine.json",
       R"({"zero": {"stage": 3, "bucket": 500000000}, "list": [1, "b"], "own": "text"})",
       {{"list[1]", "\"b\"", "\"a\""}, {"x", {}, "true"}, {"zero.stage", "3", "2"}},
       {"own"}},
      {"mine.yml", "d: {e: 1.50}\nc: \"no\"\nb: 3.0\na: true\n", {}},
      {"mine.yaml",
       "a: false\nb: '3'\nd:\n  e: 2\n",
       {{"a", "false", "true"}, {"b", "\"3\"", "3"}, {"c", {}, "\"no\""}, {"d.e", "2", "1.5"}}},
      {"other.toml", "[model]\nname = \"y\"\n", {{"model.name", "\"y\"", "\"x\""}}},
  };
  const testing::TestFolder folder;
  for (const Case& each : cases) {
    const ConfigComparison found =
        compare_config(planned(), folder.put(each.name, each.text), {planned()});
    EXPECT_EQ(found.differences, each.differences) << each.text;
    EXPECT_EQ(found.own, each.own) << each.text;
  }
}

TEST(ConfigDifferences, AreNoKeysThatNoPlanHasAndNoneThatTheFrameworkFillsIn) {
  const testing::TestFolder folder;
  const std::string in_use = folder.put("mine.json", R"({"zero": {"stage": "auto", "bucket": 5e8,
      "offload": {"device": "cpu"}, "own": {"a": 1}}, "x": true, "list": [1, "a"],
      "scheduler": {"type": "auto"}})");
  LaunchConfig other;
  other.files = {{"o/ds_config.json", R"({"zero": {"offload": {"device": "cpu", "pin": true}}})"},
                 {"o/other.json", R"({"scheduler": 1})"}};
  const ConfigComparison found = compare_config(planned(), in_use, {planned(), other});
  EXPECT_EQ(found.differences,
            (std::vector<ConfigDifference>{{"zero.offload", R"({"device":"cpu"})", {}}}))
      << "another plan has it, and this one has not";
  EXPECT_EQ(found.automatic, (std::vector<ConfigDifference>{{"zero.stage", "\"auto\"", "2"}}));
  EXPECT_EQ(found.own, (std::vector<std::string>{"scheduler", "zero.own"}));
}

TEST(ConfigDifferences, NeedAFileThatIsOneAndHasACounterpart) {
  const testing::TestFolder folder;
  LaunchConfig config = planned();
  EXPECT_NE(fault_of([&] {
              compare_config(config, folder.put("a.sh", ""), {});
            }).rule.find("none of JSON, YAML and TOML"),
            std::string::npos);
  EXPECT_NE(
      fault_of([&] { compare_config(config, folder.put("a.json", "{"), {}); }).rule.find("JSON"),
      std::string::npos);
  for (const char* text : {"[1]", "3"}) {
    EXPECT_EQ(fault_of([&] { compare_config(config, folder.put("a.json", text), {}); }).rule,
              "must have keys and values at its outermost");
    EXPECT_EQ(fault_of([&] { compare_config(config, folder.put("a.yaml", text), {}); }).rule,
              "must have keys and values at its outermost");
  }
  EXPECT_NE(fault_of([&] {
              compare_config(config, folder.put("b.yaml", "a: 1\na: 2\n"), {});
            }).rule.find("a stands twice"),
            std::string::npos);
  const InputFault missing = fault_of([&] { compare_config(config, folder / "none.json", {}); });
  EXPECT_EQ(missing.file, folder / "none.json");
  EXPECT_EQ(missing.key, "--diff");
  EXPECT_EQ(missing.rule, "there is no such file");
  config.files = {{"out/plan.json", "{}"}, {"out/args.yaml", "a: 1"}};
  EXPECT_EQ(fault_of([&] { compare_config(config, folder.put("b.json", "{}"), {}); }).rule,
            "the target writes no file of this format, but args.yaml");
}

}  // namespace
}  // namespace planwright::launcher
