#include "launcher/command_log.h"

#include <fmt/core.h>

#include "command_process.h"
#include "launcher/group_protocol.h"
#include "launcher/logs/generic_format.h"
#include "launcher/supervisor/log_sink.h"
#include "launcher/targets/deepspeed/log.h"

namespace planwright::launcher {
namespace {

LogSummary read(const std::string& path, std::string_view tail = "") {
  return read_command_log(path, tail, LogReader({generic_log_format()}));
}

/// As the supervisor leaves it.
std::string kept_log(const testing::TestFolder& folder, const std::string& text) {
  supervisor::LogSink sink(folder / "log");
  sink.append(text);
  sink.finish();
  return folder / "log";
}

TEST(CommandLog, TakesNothingFromWhatTheGapHasCut) {
  const testing::TestFolder folder;
  for (int shift = 0; shift < 30; ++shift) {
    std::string text(static_cast<std::size_t>(shift), '#');
    for (int step = 1; text.size() < 2 * kLogHead; ++step) {
      text += fmt::format("\nstep {} took 812.5 ms/step and step_time_ms: 812.5", step);
    }
    const LogSummary summary = read(kept_log(folder, text));
    ASSERT_GT(summary.steps.size(), 1000U);
    EXPECT_LT(summary.steps.size(), 40000U);
    for (const StepLine& each : summary.steps) ASSERT_EQ(each.seconds, 0.8125) << shift;
  }
}

TEST(CommandLog, OfAnyOtherLengthIsReadWhole) {
  const testing::TestFolder folder;
  const std::string line = "step 7 step_time=0.5 s\n";
  for (const std::size_t before : {std::size_t{0}, kLogHead - 10, kLogHead, kLogHead + 9000}) {
    const std::string text = std::string(before, '\n') + line;
    EXPECT_EQ(read(kept_log(folder, text)).steps.size(), 1U) << before;
  }
  EXPECT_EQ(read(kept_log(folder, std::string(kLogHead, '\n') + "\n[12 bytes] left\n" + line))
                .steps.size(),
            1U);
}

TEST(CommandLog, ThatCouldNotBeWrittenIsReadFromItsTail) {
  const testing::TestFolder folder;
  EXPECT_EQ(read(folder / "none", "step 1 step_time=3\n").steps.size(), 1U);
  EXPECT_EQ(read(folder.put("empty", ""), "step 1 step_time=3\n").steps.size(), 1U);
}

class CommandLogProcess : public CommandProcess {
 protected:
  CommandLogProcess() {
    job_.log_formats = {targets::deepspeed::log_format(), generic_log_format()};
    job_.samples = 32;
  }
};

TEST_F(CommandLogProcess, OfOwnWordsIsAWitness) {
  const CommandOutcome ended =
      run("echo 'loading the model'\n"
          "for i in 1 2 3; do echo \"iter $i | loss 2.$i | $i.5 s/step | peak memory: 3.00 GiB\"; "
          "done\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok) << ended.outcome.failure()->detail;
  EXPECT_EQ(ended.witness, Witness::log);
  EXPECT_EQ(ended.outcome.environment.at(kWitness), "log");
  EXPECT_TRUE(ended.warnings.empty());
  const Measurement& measured = *ended.outcome.measurement();
  EXPECT_EQ(measured.steps_s, (std::vector<double>{2.5, 3.5})) << "the first is warm-up";
  EXPECT_EQ(measured.step_time_s, 3);
  EXPECT_EQ(measured.tokens_per_second_per_device, 200);
  EXPECT_EQ(measured.allocated_peak(), countable_bytes(3 * kGiB));
}

TEST_F(CommandLogProcess, OfDeepSpeedsWordsIsAWitness) {
  const CommandOutcome ended =
      run("line='RunningAvgSamplesPerSec=16.5, CurrSamplesPerSec'\n"
          "for i in 10 20 30; do echo \"[2026-01-05 09:10:11,300] [INFO] [timer.py:264:stop] "
          "epoch=0/micro_step=$i/global_step=$i, $line=$((i * 3 + 2)).0, MemAllocated=10.25GB, "
          "MaxMemAllocated=31.75GB\"; done\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok) << ended.outcome.failure()->detail;
  EXPECT_EQ(ended.outcome.measurement()->steps_s, (std::vector<double>{1, 32 / 62.0, 32 / 92.0}));
  EXPECT_EQ(ended.outcome.measurement()->allocated_peak(), countable_bytes(31.75 * kGiB));
}

TEST_F(CommandLogProcess, OfAnIsolatedPythonIsAWitness) {
  const CommandOutcome ended =
      run("exec python3 -I -c 'for i in range(1, 4): print(f\"step {i} loss: {2 / i} step_time: "
          "{500 * i} ms max_memory_allocated: {65536 * i} max_memory_reserved: 900.5 MB\")'\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok) << ended.outcome.failure()->detail;
  EXPECT_EQ(ended.witness, Witness::log);
  const Measurement& measured = *ended.outcome.measurement();
  EXPECT_EQ(measured.steps_s, (std::vector<double>{1, 1.5}));
  EXPECT_EQ(measured.losses, (std::vector<double>{2, 1, 2 / 3.0}));
  EXPECT_EQ(measured.ranks.front().whole_peak, Bytes{3 * 65536});
  EXPECT_EQ(measured.ranks.front().reserved_peak, Bytes{900'500'000});
  EXPECT_FALSE(measured.ranks.front().device_peak);
}

TEST_F(CommandLogProcess, OfAScriptThatNeverEndsIsAWitness) {
  options_.deadline_s = 1;
  const CommandOutcome ended =
      run("i=0; while :; do i=$((i + 1)); echo \"step $i: 0.5 s/step\"; sleep 0.05; done\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok) << ended.outcome.failure()->detail;
  EXPECT_EQ(ended.outcome.measurement()->step_time_s, 0.5);
  EXPECT_TRUE(contains(ended.warnings.front(), "deadline"));
}

TEST_F(CommandLogProcess, KnowsThatADeviceRanFull) {
  job_.observe = false;
  const CommandOutcome ended = run(
      "echo 'step 1: 0.5 s/step'\n"
      "echo '[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU "
      "5 has a total capacity of 79.00 GiB of which 512.00 MiB is free. Of the allocated memory "
      "70.25 GiB is allocated by PyTorch, and 4.25 GiB is reserved by PyTorch but unallocated.' "
      ">&2\nexit 1\n");
  const OutOfMemory* full = ended.outcome.out_of_memory();
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->rank, 2);
  EXPECT_EQ(full->requested, countable_bytes(2.5 * kGiB));
  EXPECT_EQ(full->allocated, countable_bytes(70.25 * kGiB));
  EXPECT_EQ(full->reserved, countable_bytes(74.5 * kGiB));
  EXPECT_EQ(full->capacity, countable_bytes(79 * kGiB));
}

TEST_F(CommandLogProcess, KnowsWhatAPipeSwallowed) {
  EXPECT_EQ(
      run("{ echo 'RuntimeError: CUDA out of memory' >&2; exit 1; } 2>&1 | cat\n").outcome.kind(),
      OutcomeKind::out_of_memory);
}

TEST_F(CommandLogProcess, OfNoStepSaysSo) {
  EXPECT_TRUE(contains(failure("echo all is well\n", OutcomeKind::crashed),
                       "its log states no time of a step behind the warm-up"));
}

TEST_F(CommandLogProcess, ShowsWhatPythonPrintsAtOnce) {
  run("echo \"$PYTHONUNBUFFERED\" > " + (folder_ / "seen") + "\n");
  EXPECT_EQ(testing::file_text(folder_ / "seen"), "1\n");
  job_.environment["PYTHONUNBUFFERED"] = "";
  run("echo \"<$PYTHONUNBUFFERED>\" > " + (folder_ / "seen") + "\n");
  EXPECT_EQ(testing::file_text(folder_ / "seen"), "<>\n");
}

TEST_F(CommandLogProcess, IsReadByFormatsThatArePatternsOnly) {
  job_.log_formats = {{.name = "job.toml", .lines = {"step {stp}"}}};
  EXPECT_THROW(run("touch " + (folder_ / "started") + "\n"), InputError);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "started"));
}

}  // namespace
}  // namespace planwright::launcher
