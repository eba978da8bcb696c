#include "launcher/command_probe.h"

#include <gtest/gtest.h>

#include "command_process.h"
#include "launcher/disturbance.h"
#include "tests/support/busy_processes.h"

namespace planwright::launcher {
namespace {

const char* const kThreeSteps = "step 1 null 900\nstep 2 0.5 300\nstep 3 0.25 400\n";

TEST_F(CommandProcess, LeavesNoTemporaryFiles) {
  const CommandOutcome ended =
      run("touch \"$TMPDIR/left\"\necho '{\"step_time_s\": 1}' > \"$PLANWRIGHT_REPORT\"\n"
          "[ -e \"$TMPDIR/left\" ] && case \"$TMPDIR\" in \"$PLANWRIGHT_TEST\"/*) exit 0;; esac\n"
          "rm \"$PLANWRIGHT_REPORT\"\n");
  EXPECT_EQ(ended.outcome.kind(), OutcomeKind::ok) << "the folder is the probe's own";
}

TEST_F(CommandProcess, IsMeasuredByTheObserver) {
  const CommandOutcome ended = run(kThreeSteps);
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok) << ended.outcome.failure()->detail;
  EXPECT_EQ(ended.witness, Witness::observer);
  EXPECT_TRUE(ended.warnings.empty());
  const Measurement& measured = *ended.outcome.measurement();
  EXPECT_EQ(measured.steps_s, (std::vector<double>{0.5, 0.25})) << "the first is warm-up";
  EXPECT_EQ(measured.step_time_s, 0.375);
  EXPECT_EQ(measured.tokens_per_second_per_device, 600 / 0.375);
  EXPECT_EQ(measured.allocated_peak(), Bytes{400}) << "of the measured steps";
  EXPECT_EQ(measured.ranks.front().rss_peak, Bytes{5000});
  EXPECT_EQ(
      measured.ranks.front().held,
      (HeldBytes{
          .parameters = Bytes{40}, .gradients = {}, .optimizer = Bytes{}, .communication = {}}))
      << "none is known to be 0, unknown is not";
  EXPECT_EQ(ended.outcome.environment.at("torch"), "2.11.0");
  EXPECT_EQ(ended.outcome.environment.at("memory_source"), "counting_allocator");
  EXPECT_EQ(ended.outcome.environment.at(kWitness), "observer");
}

TEST_F(CommandProcess, GetsTheObserverTheStepsAndItsArguments) {
  job_.environment["PYTHONPATH"] = "/own/modules";
  run("echo \"$PYTHONPATH|$PLANWRIGHT_OBSERVER_STEPS|$*\" > " + (folder_ / "seen") + "\n");
  const std::string seen = testing::file_text(folder_ / "seen");
  EXPECT_EQ(seen, "/observer's folder:/own/modules|3|--micro-batch 4\n");
}

TEST_F(CommandProcess, IsLeftAloneWhereItIsNotToBeObserved) {
  job_.observe = false;
  run("echo \"${PLANWRIGHT_OBSERVER-none}|${PLANWRIGHT_REPORT:+there}\" > " + (folder_ / "seen") +
      "\n");
  EXPECT_EQ(testing::file_text(folder_ / "seen"), "none|there\n");
}

TEST_F(CommandProcess, OfSeveralRanksLastsAsLongAsTheSlowest) {
  job_.ranks = 2;
  const CommandOutcome ended =
      run(std::string(kThreeSteps) + "rank=1\nstep 1 null 1\nstep 2 0.75 500\nstep 3 0.125 1\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  const Measurement& measured = *ended.outcome.measurement();
  EXPECT_EQ(measured.steps_s, (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(measured.ranks.size(), 2u);
  EXPECT_EQ(measured.allocated_peak(), Bytes{500});
  EXPECT_EQ(measured.tokens_per_second_per_device, 600 / 0.5 / 2);
}

TEST_F(CommandProcess, StepsThatAreCountedAnewTakeThePlaceOfThoseBefore) {
  const CommandOutcome ended =
      run("step 1 null 1\nstep 2 0.001 1\nstep 3 0.001 1\nstep 4 0.001 1\n"
          "step 1 null 1\nstep 2 0.5 1\nstep 3 0.25 1\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  EXPECT_EQ(ended.outcome.measurement()->steps_s, (std::vector<double>{0.5, 0.25}));
}

TEST_F(CommandProcess, ItsOwnReportGoesBeforeTheObserver) {
  const CommandOutcome ended =
      run(std::string(kThreeSteps) +
          "echo '{\"step_time_s\": 2.0, \"peak_bytes\": 7000}' > \"$PLANWRIGHT_REPORT\"\n");
  EXPECT_EQ(ended.witness, Witness::report);
  EXPECT_EQ(ended.outcome.environment.at(kWitness), "report");
  EXPECT_EQ(ended.outcome.measurement()->step_time_s, 2.0);
  EXPECT_EQ(ended.outcome.measurement()->allocated_peak(), Bytes{7000});
}

TEST_F(CommandProcess, AReportMayBeALinePerStep) {
  const CommandOutcome ended =
      run("for i in 1 2 3 4; do echo '{\"step\": '$i', \"time_s\": 0.'$i', \"loss\": 2.5}'; done > "
          "\"$PLANWRIGHT_REPORT\"\n");
  EXPECT_EQ(ended.witness, Witness::report);
  EXPECT_EQ(ended.outcome.measurement()->steps_s, (std::vector<double>{0.2, 0.3, 0.4}));
  EXPECT_EQ(ended.outcome.measurement()->losses.size(), 4u);
}

TEST_F(CommandProcess, KeysThatAReportDoesNotHaveAreNamed) {
  const auto report = [](const std::string& line) {
    return "echo '{" + line + "}' >> \"$PLANWRIGHT_REPORT\"\n";
  };
  const CommandOutcome ended = run(report("\"step_time_s\": 1, \"peak_byte\": 5, \"lr\": 1") +
                                   report("\"step_time_s\": 1, \"peak_byte\": 5"));
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  EXPECT_EQ(ended.warnings,
            std::vector<std::string>({"lr is no key of PLANWRIGHT_REPORT",
                                      "peak_byte is no key of PLANWRIGHT_REPORT; did you mean "
                                      "peak_bytes?"}));
  EXPECT_TRUE(contains(failure(report("\"step_time\": 1"), OutcomeKind::crashed),
                       "no time of a step: step_time is no key of PLANWRIGHT_REPORT; did you mean "
                       "step_time_s?"));
}

TEST_F(CommandProcess, ALossThatIsNoNumberIsNamed) {
  const CommandOutcome ended =
      run("for i in 1 2 3; do echo '{\"step\": '$i', \"time_s\": 1, \"loss\": \"'$i'\"}'; done > "
          "\"$PLANWRIGHT_REPORT\"\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  EXPECT_EQ(ended.outcome.measurement()->losses, std::vector<double>{});
  EXPECT_EQ(ended.warnings,
            std::vector<std::string>{"loss must be a number, and is of the type string"});
}

TEST_F(CommandProcess, AReportMayCountItsStepsFromZero) {
  const CommandOutcome ended =
      run("for i in 0 1 2; do echo '{\"step\": '$i', \"time_s\": 1.'$i'}'; done > "
          "\"$PLANWRIGHT_REPORT\"\n");
  EXPECT_EQ(ended.outcome.measurement()->steps_s, (std::vector<double>{1.1, 1.2}));
}

TEST_F(CommandProcess, AReportOfNoNumbersIsSaidAndLeftOut) {
  const std::string nan = "echo '{\"step_time_s\": NaN}' > \"$PLANWRIGHT_REPORT\"\n";
  EXPECT_TRUE(contains(failure(nan, OutcomeKind::crashed), "NaN and Infinity are no numbers"));
  const CommandOutcome observed = run(kThreeSteps + nan);
  EXPECT_EQ(observed.witness, Witness::observer);
  ASSERT_EQ(observed.warnings.size(), 1u);
  EXPECT_TRUE(contains(observed.warnings.front(), "line 1"));
  EXPECT_TRUE(contains(failure("echo garbage > \"$PLANWRIGHT_REPORT\"\n", OutcomeKind::crashed),
                       "is no JSON object"));
  EXPECT_TRUE(contains(
      failure("echo '{\"step_time_s\": -1}' > \"$PLANWRIGHT_REPORT\"\n", OutcomeKind::crashed),
      "step_time_s = -1 must be a finite number of more than zero"));
}

TEST_F(CommandProcess, WhosePlanDoesNotTrainIsNoGoodOne) {
  const char* const why = "the plan does not train";
  for (const std::string loss : {"NaN", "-Infinity", "null"}) {
    EXPECT_TRUE(contains(failure("echo '{\"step\": 2, \"time_s\": 1, \"loss\": " + loss +
                                     "}' > \"$PLANWRIGHT_REPORT\"\n",
                                 OutcomeKind::crashed),
                         why));
  }
  const std::string steps = kThreeSteps;
  EXPECT_TRUE(
      contains(failure(steps + "line end '\"finite\":false'\n", OutcomeKind::crashed), why));
  EXPECT_TRUE(
      contains(failure(steps + "echo step 1 loss: nan\n", OutcomeKind::crashed), "loss of step 1"));
  for (const std::string finite : {"true", "null"}) {
    EXPECT_EQ(run(steps + "line end '\"finite\":" + finite + "'\n").outcome.kind(),
              OutcomeKind::ok);
  }
}

TEST_F(CommandProcess, ThatIsDisturbedSaysByWhat) {
  EXPECT_EQ(run(kThreeSteps).outcome.environment.at(kDisturbance), "steps took 250 to 500 ms");
  if (cpu_use().cpus == 0) GTEST_SKIP() << "under a CPU quota nothing is said of others";
  const testing::BusyProcesses busy;
  const std::string said =
      run(std::string(kThreeSteps) + "sleep 1\n").outcome.environment.at(kDisturbance);
  EXPECT_TRUE(contains(said, "other processes used ")) << said;
}

TEST_F(CommandProcess, TheTimeOfItsProcessesIsNotThatOfOthers) {
  const double before_s = cpu_use().own_s;
  run("timeout 1 sh -c 'while :; do :; done'\n");
  EXPECT_GT(cpu_use().own_s - before_s, 0.2);
}

TEST_F(CommandProcess, ThatDiesAfterItsStepsIsGoodWithAWarning) {
  const CommandOutcome ended = run(std::string(kThreeSteps) + "kill -ABRT $$\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  ASSERT_EQ(ended.warnings.size(), 1u);
  EXPECT_TRUE(contains(ended.warnings.front(), "signal 6 after its steps were measured"));
}

TEST_F(CommandProcess, ThatDiesBeforeIsNot) {
  EXPECT_TRUE(contains(
      failure("step 1 null 9\nstep 2 0.5 9\necho oh no >&2; exit 3\n", OutcomeKind::crashed),
      "exit code 3; oh no"));
}

TEST_F(CommandProcess, ThatMakesFewerStepsIsGoodWithAWarning) {
  const CommandOutcome ended = run("step 1 null 9\nstep 2 0.5 9\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  EXPECT_TRUE(contains(ended.warnings.at(0), "only 1 of 2 steps"));
}

TEST_F(CommandProcess, ThatMakesNoStepSaysSo) {
  const std::string silent = failure("sleep 0.2\necho done\n", OutcomeKind::crashed);
  EXPECT_TRUE(contains(silent, "no process of it loaded the observer: it never imports torch"));
  EXPECT_TRUE(contains(silent, "; it ended with exit code 0 after 0.")) << silent;
  EXPECT_TRUE(contains(silent, " s and printed \"done\" last")) << silent;
  EXPECT_TRUE(contains(failure("exit 0\n", OutcomeKind::crashed), "and printed nothing"));
  EXPECT_TRUE(contains(failure("step 1 null 5\n", OutcomeKind::crashed), "behind the 1 of"));
  job_.observe = false;
  EXPECT_TRUE(contains(failure("exit 0\n", OutcomeKind::crashed), "was not observed"));
}

TEST_F(CommandProcess, ThatImportsTorchButStepsNoOptimizerSaysSo) {
  const std::string alone = "line start '\"rank_source\":\"none\"'\n";
  const std::string placed = "line start '\"rank_source\":\"environment\"'\n";
  const char* const ignored = "ranks' Python ignores PYTHONPATH";
  const std::string by_launcher = failure(alone, OutcomeKind::crashed);
  EXPECT_TRUE(contains(by_launcher, "no optimizer of torch was seen to step")) << by_launcher;
  EXPECT_TRUE(contains(by_launcher, ignored)) << "the process may be the launcher's own";
  const std::string by_rank = failure(placed, OutcomeKind::crashed);
  EXPECT_TRUE(contains(by_rank, "only within torch.compile;")) << by_rank;
  EXPECT_FALSE(contains(by_rank, ignored));
}

TEST_F(CommandProcess, OfTooFewRanksSaysHowToStartThem) {
  job_.ranks = 4;
  const std::string both = std::string(kThreeSteps) + "rank=1\n" + kThreeSteps;
  EXPECT_TRUE(contains(failure(both, OutcomeKind::crashed),
                       "2 of 4 ranks were seen to step an optimizer: start it with torchrun "
                       "--nproc-per-node=4, or tune for as many devices: --devices 2"));
  job_.ranks = 3;
  EXPECT_TRUE(contains(failure(kThreeSteps, OutcomeKind::crashed),
                       "1 of 3 ranks were seen to step an optimizer: start it with torchrun "
                       "--nproc-per-node=3, or tune for one device: --devices 1"));
  job_.ranks = 2;
  EXPECT_TRUE(contains(failure(kThreeSteps, OutcomeKind::crashed),
                       "1 of 2 ranks were seen to step an optimizer; "))
      << "that rank says itself that it is one of two";
  const CommandOutcome logged =
      run(std::string(kThreeSteps) + "echo step 2 step_time=1\necho step 3 step_time=1\n");
  EXPECT_EQ(logged.witness, Witness::log);
  EXPECT_TRUE(contains(logged.warnings.at(1), "1 of 2 ranks were seen"));
}

TEST_F(CommandProcess, WhoseDeviceRunsFullKeepsTheFigures) {
  const CommandOutcome ended = run(
      "step 1 null 9\nline oom '\"step\":2,\"caught\":false,\"device\":\"cuda\",\"requested\":64,"
      "\"allocated\":900,\"reserved\":950,\"capacity\":1000,\"message\":\"CUDA out of "
      "memory\"'\nline end '\"reason\":\"error\",\"error\":\"OutOfMemoryError\"'\nexit 1\n");
  const OutOfMemory* full = ended.outcome.out_of_memory();
  ASSERT_NE(full, nullptr);
  EXPECT_EQ(full->requested, Bytes{64});
  EXPECT_EQ(full->allocated, Bytes{900});
  EXPECT_EQ(full->reserved, Bytes{950});
  EXPECT_EQ(full->capacity, Bytes{1000});
}

TEST_F(CommandProcess, WhoseHostRunsFullIsNamedSo) {
  EXPECT_TRUE(contains(failure("line oom '\"step\":1,\"device\":\"cpu\",\"message\":\"not enough "
                               "memory: 99 bytes\"'\nexit 1\n",
                               OutcomeKind::host_out_of_memory),
                       "not enough memory: 99 bytes"));
  failure("echo 'Cannot allocate memory' >&2; exit 1\n", OutcomeKind::host_out_of_memory);
}

TEST_F(CommandProcess, ThatLacksSomethingIsTheEnvironmentsFault) {
  EXPECT_TRUE(contains(failure("echo \"ModuleNotFoundError: No module named 'deepspeed'\" >&2\n"
                               "exit 1\n",
                               OutcomeKind::environment),
                       "No module named 'deepspeed'"));
  job_.argv = {"no-such-program-anywhere"};
  EXPECT_EQ(run_command(job_, options_).outcome.kind(), OutcomeKind::environment);
}

TEST_F(CommandProcess, ThatHangsIsEnded) {
  options_.watchdog_s = 1;
  EXPECT_TRUE(contains(failure("step 1 null 9\nsleep 600\n", OutcomeKind::hung), "sign of life"));
}

TEST_F(CommandProcess, ThatIgnoresSignalsAndForksAwayIsEndedAtTheDeadline) {
  options_.deadline_s = 1;
  failure("trap '' TERM INT\n(setsid sleep 600 &)\nwhile :; do echo alive; sleep 0.1; done\n",
          OutcomeKind::timed_out);
}

TEST_F(CommandProcess, OutputAndStepsAreSignsOfLife) {
  options_.watchdog_s = 1;
  const CommandOutcome ended =
      run("for i in 1 2 3 4 5; do echo working; sleep 0.4; done\n" + std::string(kThreeSteps));
  EXPECT_EQ(ended.outcome.kind(), OutcomeKind::ok);
}

TEST_F(CommandProcess, GarbageInTheObserversFolderIsPassedOver) {
  const CommandOutcome ended =
      run("echo 'no json' > \"$PLANWRIGHT_OBSERVER/rank-0-1.jsonl\"\n" + std::string(kThreeSteps) +
          "printf '{\"schema\":\"planwright.observer/1\",\"kind\":\"st' >> "
          "\"$PLANWRIGHT_OBSERVER/rank-0-1.jsonl\"\n"
          "head -c 3000 /dev/urandom > \"$PLANWRIGHT_OBSERVER/rank-7-7.jsonl\"\n");
  ASSERT_EQ(ended.outcome.kind(), OutcomeKind::ok);
  EXPECT_EQ(ended.outcome.measurement()->ranks.size(), 1u);
}

}  // namespace
}  // namespace planwright::launcher
