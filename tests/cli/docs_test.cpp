#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "cli/cluster_file.h"
#include "cli/command_input.h"
#include "cli/measured_rows.h"
#include "cli/problem_input.h"
#include "cli/targets.h"
#include "estimator/devices.h"
#include "launcher/logs/field.h"
#include "launcher/targets/fsdp/emit.h"
#include "tests/support/emit_requests.h"
#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright::testing {
namespace {

using Names = std::set<std::string>;

/// What stands in backticks in the first column of the table's rows, with each of its units.
Names names_in_table(const std::string& text, const std::string& heading) {
  Names names;
  std::istringstream lines(text.substr(text.find(heading)));
  const std::regex quoted("`([a-z_A-Z]+)`");
  for (std::string line; std::getline(lines, line) && line.starts_with('|');) {
    const std::string cell = line.substr(0, line.find('|', 1));
    for (std::sregex_iterator each(cell.begin(), cell.end(), quoted), end; each != end; ++each) {
      names.insert((*each)[1]);
    }
  }
  return names;
}

/// The unit of a name as the table has it.
std::string without_unit(const std::string& name) {
  const bool known = launcher::field_of_name(name)->unit != launcher::LogUnit::bare;
  return known ? name.substr(0, name.rfind('_')) + "_UNIT" : name;
}

/// The whole of each block in that language.
std::vector<std::string> blocks_of(const std::string& text, const std::string& language) {
  std::vector<std::string> blocks;
  const std::string fence = "```" + language + "\n";
  for (std::size_t at = 0; (at = text.find(fence, at)) != text.npos;) {
    at += fence.size();
    blocks.push_back(text.substr(at, text.find("```", at) - at));
  }
  return blocks;
}

TEST(Docs, HaveStudiesThatWorkAsTheyStand) {
  const TestFolder folder;
  folder.put("train.py", "");
  folder.put("train.yaml", "batch: {micro_batch}\n");
  const std::string text = file_text(PLANWRIGHT_SOURCE_DIR "/docs/your-script.md");
  const std::vector<std::string> studies = blocks_of(text, "toml");
  ASSERT_FALSE(studies.empty());
  for (const std::string& study : studies) {
    cli::Settings settings = cli::settings_of_toml(study, folder / "study.toml");
    settings.set(cli::Table::cluster, "device", {"cpu", cli::kCommandLine, "--device"});
    const cli::ManyCandidates many = cli::read_many_candidates(settings);
    EXPECT_NO_THROW(cli::require_something_to_tune(settings, many.input.problem, many.input.user))
        << study;
    EXPECT_NO_THROW(cli::require_script(settings, many.input.user)) << study;
    const search::Space space =
        search::enumerate(many.input.problem, many.input.traits(), many.space);
    ASSERT_FALSE(space.legal.empty()) << study;
    for (const Candidate& candidate : space.legal) {
      launcher::EmitRequest request{.plan = {many.input.problem, candidate, {}}};
      request.user = many.input.user;
      EXPECT_NO_THROW(many.input.target->emit(request)) << describe(candidate);
    }
  }
}

TEST(Docs, HaveAClusterFileThatWorks) {
  const std::vector<std::string> files =
      blocks_of(file_text(PLANWRIGHT_SOURCE_DIR "/docs/data.md"), "toml");
  ASSERT_EQ(files.size(), 1u);
  ClusterSpec cluster =
      estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", ""), 16, 8);
  cli::apply_cluster_toml(files[0], "docs/data.md", cluster);
  EXPECT_EQ(cluster.links.size(), 2u);
  EXPECT_EQ(cluster.links[0].bandwidth, BytesPerSecond{450e9});
  EXPECT_EQ(cluster.pcie, BytesPerSecond{48e9});
}

/// A line of the table for each knob, its values the default first.
TEST(Docs, NameEveryKnob) {
  const std::string text = file_text(PLANWRIGHT_SOURCE_DIR "/docs/your-script.md");
  for (const std::string& target : cli::target_names()) {
    if (target == kCommandTarget) continue;
    for (const Knob& knob : cli::find_target({target, "", ""})->traits.knobs) {
      const std::string line = fmt::format("\n| {} | `{}` | {} | {} |\n", target, knob.name,
                                           fmt::join(knob.values, ", "), knob.effect);
      EXPECT_NE(text.find(line), std::string::npos) << "is missing:" << line;
    }
  }
}

TEST(Docs, NameEveryFieldOfALog) {
  Names fields;
  for (const std::string& name : launcher::field_names()) fields.insert(without_unit(name));
  const std::string text = file_text(PLANWRIGHT_SOURCE_DIR "/docs/your-script.md");
  EXPECT_EQ(names_in_table(text, "| in braces |"), fields);
}

TEST(Docs, NameEveryColumnOfPublishedRows) {
  const std::vector<std::string> columns = cli::measured_columns();
  const std::string text = file_text(PLANWRIGHT_SOURCE_DIR "/docs/data.md");
  EXPECT_EQ(names_in_table(text, "| column | says |"), Names(columns.begin(), columns.end()));
}

TEST(Docs, NameEveryKeyOfFsdpsSettings) {
  Names keys;
  for (const char* engine : {"fsdp2", "fsdp1"}) {
    Candidate candidate = sharded_candidate();
    candidate.knobs = {{"engine", engine}};
    launcher::EmitRequest request = emit_request("fsdp", "2.11.0", candidate);
    request.probe = true;
    request.steps = 4;
    const Json settings = json_of(targets::fsdp::emit(request), "fsdp_settings.json");
    for (const auto& [key, value] : settings.items()) keys.insert(key);
  }
  const std::string text = file_text(PLANWRIGHT_SOURCE_DIR "/docs/your-script.md");
  EXPECT_EQ(names_in_table(text, "| key | is | for |"), keys);
}

}  // namespace
}  // namespace planwright::testing
