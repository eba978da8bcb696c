#include "launcher/probe_runner.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "estimator/spec/text_file.h"
#include "launcher/clock.h"
#include "tests/support/fake_traits.h"
#include "tests/support/processes.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

/// The supervisor of this build.
const std::string kSupervisor = std::string(PLANWRIGHT_BIN_DIR) + "/planwright-supervisor";

using probes::RankEnd;
using probes::RankJobReport;
using probes::RankReport;
using testing::data_parallel;
using testing::fake_problem;
using testing::fake_traits;
using testing::processes_marked;
using testing::TestFolder;
using testing::tiny_llama;

/// A worker that is a shell script: $1 the request, $2 the rank, $reports this test's reports.
class FakeWorker {
 public:
  explicit FakeWorker(const std::string& body) {
    folder_.put("temp/.keep", "");
    options_.supervisor = kSupervisor;
    options_.temp_root = folder_ / "temp";
    options_.environment["PLANWRIGHT_TEST"] = mark();
    options_.worker =
        folder_.put_script("worker", "reports='" + folder_.path() +
                                         "'\nanswer() { cp \"$reports/report.$1.json\" "
                                         "\"${2%/*}/\"; }\n" +
                                         body);
    for (int rank = 0; rank < 2; ++rank) give(rank, ok_report(rank));
  }

  static RankReport ok_report(int rank) {
    RankReport report;
    report.rank = rank;
    report.first_step_monotonic_s = monotonic_s() + 1000;
    report.environment = {{"torch", "2.11.0"}};
    RankJobReport job;
    job.measurement.steps_s = {0.5, 0.25};
    job.losses = {3, 2, 1};
    report.jobs = {job};
    return report;
  }

  void give(int rank, const RankReport& report) {
    folder_.put("report." + std::to_string(rank) + ".json", probes::to_json(report).dump());
  }

  RunOptions& options() { return options_; }
  Outcome run() { return run_probe(job(), options_); }

  static probes::TrainJob job() {
    return make_train_job(fake_problem(tiny_llama(), 2, Precision::fp32), data_parallel(2, 0, 1),
                          {}, fake_traits(64), 7);
  }

  std::string mark() const { return folder_.path(); }
  bool nothing_is_left() const {
    return processes_marked(mark()).empty() &&
           std::filesystem::directory_iterator(folder_ / "temp")->path().filename() == ".keep" &&
           std::next(std::filesystem::directory_iterator(folder_ / "temp")) ==
               std::filesystem::directory_iterator();
  }
  const TestFolder& folder() const { return folder_; }

 private:
  TestFolder folder_;
  RunOptions options_;
};

TEST(ProbeRunnerProcess, AMeasurementIsPutTogetherFromTheRanksReports) {
  FakeWorker worker("echo step 0 >&3; answer $2 $1");
  std::vector<std::string> progress;
  worker.options().progress = [&](const ProgressEvent& e) { progress.push_back(e.text); };
  const Outcome outcome = worker.run();

  ASSERT_EQ(outcome.kind(), OutcomeKind::ok) << outcome.failure()->detail;
  const Measurement& measured = *outcome.measurement();
  ASSERT_EQ(measured.ranks.size(), 2u);
  EXPECT_EQ(measured.ranks[1].rank, 1);
  EXPECT_EQ(measured.steps_s, (std::vector<double>{0.5, 0.25}));
  ASSERT_TRUE(measured.ranks[0].startup_s);
  EXPECT_GT(*measured.ranks[0].startup_s, 900) << "first step minus start, on one clock";
  EXPECT_LT(*measured.ranks[0].startup_s, 1001);
  EXPECT_EQ(outcome.environment.at("torch"), "2.11.0");
  EXPECT_EQ(progress, (std::vector<std::string>{"step 0", "step 0"}));
  EXPECT_TRUE(worker.nothing_is_left());
}

TEST(ProbeRunnerProcess, TheWorkerFindsAWholeRequestAndItsThreads) {
  FakeWorker worker(
      "cp $1 $reports/seen.json; echo $OMP_NUM_THREADS $MKL_NUM_THREADS > "
      "$reports/threads.$2; answer $2 $1");
  probes::TrainJob job = FakeWorker::job();
  job.problem.cluster.threads_per_rank = 3;
  ASSERT_EQ(run_probe(job, worker.options()).kind(), OutcomeKind::ok);
  EXPECT_EQ(read_file(worker.folder() / "threads.1"), "3 3\n");
  const std::string text = read_file(worker.folder() / "seen.json");
  const auto request = probes::probe_request_from_json(parse_json(text, "seen"), "seen");
  EXPECT_EQ(request.world, 2);
  EXPECT_EQ(request.threads, 3);
  ASSERT_EQ(request.train.size(), 1u);
  EXPECT_EQ(request.train[0].candidate, job.candidate);
  EXPECT_EQ(request.train[0].memory_budget, capacity(job.problem));
  EXPECT_EQ(request.train[0].bucket_elements, 64);
}

struct FaultCase {
  const char* name;
  const char* worker;
  OutcomeKind kind;
  const char* detail;
  std::optional<int> rank;
};

void PrintTo(const FaultCase& fault, std::ostream* out) { *out << fault.name; }

class ProbeFaultProcess : public ::testing::TestWithParam<FaultCase> {};

TEST_P(ProbeFaultProcess, IsNamedAndLeavesNothing) {
  FakeWorker worker(GetParam().worker);
  worker.options().watchdog_s = 2;
  worker.options().deadline_s = 4;
  const Outcome outcome = worker.run();
  EXPECT_EQ(word(outcome.kind()), word(GetParam().kind));
  ASSERT_TRUE(outcome.failure());
  EXPECT_NE(outcome.failure()->detail.find(GetParam().detail), std::string::npos)
      << outcome.failure()->detail;
  if (GetParam().rank) {
    EXPECT_EQ(outcome.failure()->rank, GetParam().rank);
  }
  EXPECT_TRUE(worker.nothing_is_left());
}

const FaultCase kFaults[] = {
    {"error", "[ $2 = 1 ] && { echo boom; exit 15; }; sleep 100", OutcomeKind::crashed,
     "exit code 15", 1},
    {"sigkill", "[ $2 = 1 ] && kill -KILL $$; sleep 100", OutcomeKind::crashed, "SIGKILL", 1},
    {"sigsegv", "[ $2 = 0 ] && kill -SEGV $$; sleep 100", OutcomeKind::crashed, "SIGSEGV", 0},
    {"peer_first", "[ $2 = 0 ] && exit 12; sleep 0.5; kill -BUS $$", OutcomeKind::crashed, "SIGBUS",
     1},
    {"silent", "while :; do [ $2 = 0 ] && echo alive >&3; sleep 0.1; done", OutcomeKind::hung,
     "rank 1 gave no sign of life", 1},
    {"stopped", "[ $2 = 0 ] && { sleep 0.5; kill -STOP $$; }; echo step 0 >&3; sleep 100",
     OutcomeKind::hung, "rank 0 gave no sign of life", 0},
    {"stopped_while_peers_give_up", "[ $2 = 1 ] && kill -STOP $$; sleep 0.5; exit 12",
     OutcomeKind::hung, "rank 1", 1},
    {"slow", "trap '' TERM; while :; do echo alive >&3; sleep 0.1; done", OutcomeKind::timed_out,
     "still running after 4 s", std::nullopt},
    {"no_report", "exit 0", OutcomeKind::crashed, "left no report", std::nullopt},
    {"torn_report", "echo '{\"rank\":' > \"${1%/*}/report.$2.json\"", OutcomeKind::crashed,
     "is not JSON", std::nullopt},
    {"fewer_steps_than_its_peer",
     "[ $2 = 1 ] && sed -i 's/[[]0[.]5,/[/' $reports/report.1.json; answer $2 $1",
     OutcomeKind::crashed, "measured steps", std::nullopt},
    {"loader", "echo \"w: error while loading shared libraries: libx.so: no\" >&2; exit 127",
     OutcomeKind::environment, "libx.so", std::nullopt},
    {"host_memory", "echo \"terminate: std::bad_alloc\" >&2; exit 1",
     OutcomeKind::host_out_of_memory, "exit code 1", std::nullopt},
};

INSTANTIATE_TEST_SUITE_P(Process, ProbeFaultProcess, ::testing::ValuesIn(kFaults),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ProbeRunnerProcess, ARanksOutOfMemoryReportIsTheOutcome) {
  FakeWorker worker("[ $2 = 1 ] && { answer $2 $1; exit 10; }; sleep 0.2; exit 12");
  RankReport report = FakeWorker::ok_report(1);
  report.jobs[0].end = RankEnd::out_of_memory;
  report.jobs[0].out_of_memory =
      OutOfMemory{Bytes{10}, Bytes{95}, Bytes{100}, {}, Account::logits, Phase::loss, 1};
  worker.give(1, report);
  const Outcome outcome = worker.run();
  ASSERT_EQ(outcome.kind(), OutcomeKind::out_of_memory);
  EXPECT_EQ(*outcome.out_of_memory(), *report.jobs[0].out_of_memory);
  EXPECT_EQ(outcome.environment.at("torch"), "2.11.0");
  EXPECT_TRUE(worker.nothing_is_left());
}

TEST(ProbeRunnerProcess, TheFailedRanksLogIsKept) {
  FakeWorker worker("[ $2 = 1 ] && { echo what went wrong >&2; exit 1; }; sleep 100");
  worker.folder().put("logs/.keep", "");
  worker.options().log_folder = worker.folder() / "logs";
  EXPECT_EQ(worker.run().failure()->log_tail, "what went wrong\n");
  EXPECT_EQ(read_file(worker.folder() / "logs/rank-1.log"), "what went wrong\n");
}

TEST(ProbeRunnerProcess, AWorldThatLacksSomethingIsTheEnvironment) {
  struct Case {
    const char* name;
    void (*spoil)(RunOptions&);
    const char* detail;
  };
  const Case cases[] = {
      {"worker", [](RunOptions& o) { o.worker = "/nonexistent/worker"; }, "/nonexistent/worker"},
      {"no program", [](RunOptions& o) { o.worker = "/dev/null"; }, "Permission denied"},
      {"no executable", [](RunOptions& o) { o.worker += ".text"; }, "Exec format error"},
      {"supervisor", [](RunOptions& o) { o.supervisor = "/nonexistent/supervisor"; },
       "/nonexistent/supervisor"},
      {"foreign supervisor", [](RunOptions& o) { o.supervisor = "/usr/bin/yes"; }, "no event"},
      {"temporary folder", [](RunOptions& o) { o.temp_root = "/nonexistent"; }, "temporary folder"},
      {"read-only folder", [](RunOptions& o) { o.temp_root = "/proc"; }, "temporary folder"},
  };
  for (const Case& each : cases) {
    FakeWorker worker("answer $2 $1");
    chmod(worker.folder().put("worker.text", "exit 0\n").c_str(), 0755);
    each.spoil(worker.options());
    const Outcome outcome = worker.run();
    EXPECT_EQ(outcome.kind(), OutcomeKind::environment) << each.name;
    EXPECT_NE(outcome.failure()->detail.find(each.detail), std::string::npos)
        << outcome.failure()->detail;
    EXPECT_TRUE(worker.nothing_is_left()) << each.name;
  }
}

TEST(ProbeRunnerProcess, AnInterruptionEndsEverythingAndIsThrown) {
  FakeWorker worker("trap '' TERM; (setsid sleep 1000 &); echo step 0 >&3; sleep 1000");
  bool started = false;
  worker.options().progress = [&](const ProgressEvent&) { started = true; };
  worker.options().interrupted = [&] { return started; };
  EXPECT_THROW(worker.run(), Interrupted);
  EXPECT_TRUE(worker.nothing_is_left());
}

TEST(ProbeRunnerProcess, SeveralJobsShareOneSetOfProcesses) {
  FakeWorker worker("echo run >> $reports/runs.$2; answer $2 $1");
  for (int rank = 0; rank < 2; ++rank) {
    RankReport report = FakeWorker::ok_report(rank);
    report.jobs.push_back(report.jobs[0]);
    worker.give(rank, report);
  }
  const JobsResult result = run_jobs({FakeWorker::job(), FakeWorker::job()}, worker.options());
  EXPECT_FALSE(result.failure);
  ASSERT_EQ(result.reports.size(), 2u);
  EXPECT_EQ(result.reports[1].rank, 1);
  EXPECT_EQ(result.reports[1].jobs.size(), 2u);
  EXPECT_EQ(read_file(worker.folder() / "runs.0"), "run\n");
}

TEST(ProbeRunner, JobsOfDifferentWorldsDoNotShareProcesses) {
  probes::TrainJob other = FakeWorker::job();
  other.candidate.dp = 1;
  EXPECT_THROW(run_jobs({FakeWorker::job(), other}, {}), std::logic_error);
  EXPECT_THROW(run_jobs({}, {}), std::logic_error);
}

TEST(ProbeRunner, WorkersStandBesideTheRunningProgram) {
  EXPECT_EQ(worker_path({}, DeviceKind::cuda), program_folder() + "/planwright-worker-cuda");
  RunOptions named;
  named.worker = "/x/w";
  EXPECT_EQ(worker_path(named, DeviceKind::cpu), "/x/w");
}

}  // namespace
}  // namespace planwright::launcher
