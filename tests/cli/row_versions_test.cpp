#include "cli/row_versions.h"

#include <gtest/gtest.h>

#include <map>

#include "cli/targets.h"

/// What versions and days tell of a row.
namespace planwright::testing {
namespace {

using cli::MeasuredRow;
using cli::Version;
using Cells = std::map<std::string, std::string>;
using Knobs = std::vector<std::pair<std::string, std::string>>;

MeasuredRow row_of(const Cells& cells) {
  MeasuredRow row;
  for (const auto& [column, text] : cells) row.set(column, text);
  return row;
}

const std::vector<Knob>& trainer_knobs() {
  return cli::find_target({"hf-trainer", "", ""})->traits.knobs;
}

TEST(RowVersions, AreReadOutOfAList) {
  const std::string list = "torch 2.4.1, transformers 4.45.2, flash-attn 2.7.0";
  EXPECT_EQ(cli::version_named(list, "torch"), (Version{2, 4, 1}));
  EXPECT_EQ(cli::version_named(list, "transformers"), (Version{4, 45, 2}));
  EXPECT_EQ(cli::version_named(list, "flash"), std::nullopt);
  EXPECT_EQ(cli::version_named("torch nightly", "torch"), std::nullopt);
  EXPECT_EQ(cli::version_named("", "torch"), std::nullopt);
}

struct Decided {
  const char* name;
  Cells cells;
  Knobs knobs;
};

void PrintTo(const Decided& each, std::ostream* out) { *out << each.name; }

class DecidedKnobs : public ::testing::TestWithParam<Decided> {};

TEST_P(DecidedKnobs, AreThoseOfTheNewestVersionThatIsReached) {
  const MeasuredRow row = row_of(GetParam().cells);
  cli::RowCells cells(row, "hf-trainer");
  EXPECT_EQ(cli::version_knobs(cells, trainer_knobs()), GetParam().knobs);
}

const Decided kDecided[] = {
    {"Old", {{"framework_version", "transformers 4.43.3"}}, {{"transformers", "4.45"}}},
    {"Between",
     {{"framework_version", "torch 2.4, transformers 4.48.1"}},
     {{"transformers", "4.48"}}},
    {"New", {{"framework_version", "transformers 5.1.0"}}, {{"transformers", "5.23"}}},
    {"OwnNumber",
     {{"framework", "hf-transformers"}, {"framework_version", "5.13.1"}},
     {{"transformers", "5.23"}}},
    {"OfADay", {{"source_version", "v2.6.1 (ab38bff, 2024-11-29)"}}, {{"transformers", "4.48"}}},
    {"OfAMonth", {{"source_version", "2022-10"}}, {{"transformers", "4.45"}}},
    {"OfAYear", {{"source_version", "0ad5fe67 (2022)"}}, {{"transformers", "4.45"}}},
    {"OfNoDay", {{"source_version", "2024ab1, x20241"}}, {}},
    {"NamedOverDay",
     {{"framework_version", "transformers 4.45.2"}, {"source_version", "2026-01-01"}},
     {{"transformers", "4.45"}}},
    {"NothingSaid", {{"source_version", "5d602fdb"}}, {}},
};

INSTANTIATE_TEST_SUITE_P(Rows, DecidedKnobs, ::testing::ValuesIn(kDecided),
                         [](const auto& each) { return each.param.name; });

/// Commits are told by their day.
TEST(RowVersions, DecideWhatATargetsCodeWas) {
  const std::vector<Knob> knobs{{"torchtitan", {"0.2.2", "2025-09"}, ""}};
  const auto decided = [&](const Cells& cells) {
    const MeasuredRow row = row_of(cells);
    cli::RowCells read(row, "torchtitan");
    const Knobs found = cli::version_knobs(read, knobs);
    return found.empty() ? "" : found.front().second;
  };
  EXPECT_EQ(decided({{"source_version", "83c879f18, 2024-03-28"}}), "2024-03");
  EXPECT_EQ(decided({{"source_version", "torchtitan 9dec370, torch 1963fc8, 2024-12"}}), "2024-06");
  EXPECT_EQ(decided({{"source_version", "torchtitan e7c0cae, 2025-06"}}), "2025-04");
  EXPECT_EQ(decided({{"source_version", "f738a03bf, 2025-08-22"}}), "2025-07");
  EXPECT_EQ(decided({{"source_version", "c4e229115, 2025-09-06"}}), "2025-09");
  EXPECT_EQ(decided({{"framework", "torchtitan"}, {"framework_version", "0.2.2"}}), "0.2.2");
  EXPECT_EQ(decided({{"framework", "torchtitan"}, {"framework_version", "0.1.0"}}), "2025-04");
}

TEST(RowVersions, SayWhichDayTheyAreAssumedOf) {
  const MeasuredRow row = row_of({{"source_version", "2024-11-29"}});
  cli::RowCells cells(row, "hf-trainer");
  cli::version_knobs(cells, trainer_knobs());
  EXPECT_EQ(cells.assumed(), std::vector<std::string>{"transformers as of 2024-11-29"});
}

TEST(RowVersions, DecideNothingOfATargetWithoutSuchKnobs) {
  const MeasuredRow row = row_of({{"framework_version", "transformers 4.45.2"}});
  cli::RowCells cells(row, "fsdp");
  EXPECT_TRUE(cli::version_knobs(cells, {}).empty());
  EXPECT_TRUE(cli::other_readings(row, {}, {}, Job::qlora).empty());
}

std::size_t readings_of(const Cells& cells, Job job) {
  return cli::other_readings(row_of(cells), trainer_knobs(), {}, job).size();
}

TEST(RowReadings, AreAllThatTheVersionsLeaveOpen) {
  EXPECT_EQ(readings_of({}, Job::pretrain), 1u);
  EXPECT_EQ(readings_of({}, Job::lora), 7u);
  EXPECT_EQ(readings_of({}, Job::qlora), 7u);
  EXPECT_EQ(readings_of({{"kernels", "eager"}}, Job::pretrain), 0u);
  EXPECT_EQ(readings_of({{"framework_version", "transformers 4.44.2"}}, Job::pretrain), 0u);
  EXPECT_EQ(readings_of({{"framework_version", "torch 2.1.1"}}, Job::pretrain), 0u);
  EXPECT_EQ(readings_of({{"source_version", "2023-07-25"}}, Job::pretrain), 0u);
}

TEST(RowReadings, BringTheLossOfTheirKernels) {
  const auto readings = cli::other_readings(row_of({}), trainer_knobs(), {}, Job::pretrain);
  ASSERT_EQ(readings.size(), 1u);
  EXPECT_EQ(readings.front().loss, LossKernel::chunked);
  EXPECT_EQ(readings.front().knobs, (Knobs{{"kernels", "liger"}}));
}

}  // namespace
}  // namespace planwright::testing
