#include "launcher/quote.h"

#include <gtest/gtest.h>
#include <toml++/toml.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "estimator/spec/error.h"
#include "launcher/document.h"
#include "launcher/shell.h"
#include "tests/support/emit_requests.h"

namespace planwright::launcher {
namespace {

using testing::hostile_texts;

TEST(Quote, EveryTextComesBackFromYaml) {
  for (const std::string& text : hostile_texts()) {
    const Json document{{"before", 1}, {"block", {{"text", text}, {"list", {text, "x"}}}}};
    const YAML::Node read = YAML::Load(yaml_text(document));
    EXPECT_EQ(read["block"]["text"].as<std::string>(), text);
    EXPECT_EQ(read["block"]["list"][0].as<std::string>(), text);
    EXPECT_EQ(read["before"].as<int>(), 1);
  }
}

TEST(Quote, EveryTextComesBackFromToml) {
  for (const std::string& text : hostile_texts()) {
    const Json document{{"block", {{"text", text}, {"lists", {{text}, {"x"}}}}}};
    std::istringstream stream(toml_text(document));
    const toml::table read = toml::parse(stream);
    EXPECT_EQ(read["block"]["text"].value<std::string>(), text);
    EXPECT_EQ(read["block"]["lists"][0][0].value<std::string>(), text);
  }
}

TEST(Quote, EveryTextStaysInsideItsComment) {
  for (const std::string& text : hostile_texts()) {
    const std::string lines = comment_lines({text, "second"});
    EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
    EXPECT_EQ(YAML::Load(lines + "a: 1\n").size(), 1U) << lines;
    std::istringstream stream(lines + "a = 1\n");
    EXPECT_EQ(toml::parse(stream).size(), 1U) << lines;
    EXPECT_EQ(testing::words_of_script(shell_script({text}, {"a"}, {})),
              std::vector<std::string>{"a"});
  }
}

TEST(Quote, EveryTextReachesAProgramThroughTheShell) {
  std::vector<std::string> words{"program", ""};
  words.insert(words.end(), hostile_texts().begin(), hostile_texts().end());
  EXPECT_EQ(testing::words_of_script(shell_script({"head"}, words, {{"X", "$(id)\n'"}})), words);
}

TEST(Quote, AScriptFindsItsOwnFilesAndNoOthers) {
  const std::string name = "it's $(id) \"x\"";
  const std::vector<std::string> words{"run",         "o/" + name,  "--a=o/" + name,
                                       "x/o/" + name, "=o/" + name, "o/" + name + "x"};
  const std::vector<std::string> found{"run",         "HERE/" + name,  "--a=HERE/" + name,
                                       "x/o/" + name, "=HERE/" + name, "o/" + name + "x"};
  EXPECT_EQ(testing::words_of_script(shell_script({}, words, {}, {"", {"o/" + name}})), found);
}

TEST(Quote, ReadableTextStaysAsItIs) {
  EXPECT_EQ(in_quotes("Llama-3.1 模型"), "\"Llama-3.1 模型\"");
  EXPECT_EQ(on_one_line("say \"no\" \\"), "say \"no\" \\");
  EXPECT_EQ(in_quotes("\x7f\u2028\U000E0001"), "\"\\u007F\\u2028\U000E0001\"");
}

TEST(Quote, RefusesBytesThatAreNotUtf8) {
  for (const char* bad : {"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82"}) {
    EXPECT_THROW(in_quotes(bad), InputError) << bad;
  }
}

TEST(Document, WritesNumbersAndWordsThatYamlElevenReadsAsSuch) {
  const Json document{{"small", 1e-05}, {"whole", 1.0},   {"count", 500000000},
                      {"off", "off"},   {"word", "FSDP"}, {"flag", true}};
  EXPECT_EQ(yaml_text(document),
            "small: 1.0e-05\nwhole: 1.0\ncount: 500000000\noff: \"off\"\nword: FSDP\nflag: true\n");
}

TEST(Document, PutsTomlTablesAfterPlainKeys) {
  const Json document{{"t", {{"a", 1}, {"u", {{"b", "x"}}}}}, {"top", 1.5}};
  EXPECT_EQ(toml_text(document), "top = 1.5\n\n[t]\na = 1\n\n[t.u]\nb = \"x\"\n");
}

}  // namespace
}  // namespace planwright::launcher
