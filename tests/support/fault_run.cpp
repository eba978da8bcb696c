#include "tests/support/fault_run.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "estimator/quantities.h"
#include "launcher/clock.h"
#include "launcher/files.h"
#include "launcher/group_protocol.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/built_programs.h"
#include "tests/support/processes.h"
#include "tests/support/rank_watch.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLANWRIGHT_SANITIZED 1
#else
#define PLANWRIGHT_SANITIZED 0
#endif

namespace planwright::testing {
namespace {

namespace fs = std::filesystem;

using launcher::monotonic_s;
using launcher::RunOptions;

constexpr bool kSanitized = PLANWRIGHT_SANITIZED == 1;
constexpr std::int64_t kSupervisorMost = 64 << 20;
constexpr const char* kStep = "step 2";
constexpr double kPatience_s = 60;  ///< what is there after it was left behind

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  std::error_code unreadable;
  for (const auto& entry : fs::directory_iterator(folder, unreadable)) {
    names.insert(entry.path().filename());
  }
  return names;
}

/// A memory cgroup of a run's own, below this process's; empty path where none can be made.
class MemoryGroup {
 public:
  explicit MemoryGroup(const std::string& limit) {
    const std::string own = limit.empty() ? "" : own_group();
    if (own.empty() || !fs::exists(own + "/cgroup.controllers")) return;
    path_ = fmt::format("{}/planwright-test-{}", own, getpid());
    if (mkdir(path_.c_str(), 0755) != 0) path_.clear();
    if (path_.empty()) return;
    std::ofstream(path_ + "/memory.max") << limit;
    if (!fs::exists(path_ + "/memory.max")) leave();
  }
  ~MemoryGroup() { leave(); }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  const std::string& path() const { return path_; }

 private:
  static std::string own_group() {
    std::ifstream file("/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) {
      if (line.rfind("0::", 0) == 0) return "/sys/fs/cgroup" + line.substr(3);
    }
    return "";
  }
  void leave() {
    if (!path_.empty()) rmdir(path_.c_str());
    path_.clear();
  }
  std::string path_;
};

/// Sends the row's signal as soon as its moment has come, once.
class Injector {
 public:
  explicit Injector(const FaultRow& row) : row_(row), watch_([this] { look(); }) {}

  RankWatch& watch() { return watch_; }
  const std::set<std::string>& listened() const { return listened_; }

  void hear(const launcher::ProgressEvent& event) {
    if (event.text == "step 0") {
      for (const std::string& each : watch_.listening()) listened_.insert(each);
    }
    if (!row_.signal || event.rank != std::max(0, row_.signal->ranks.front())) return;
    if (event.text == kStep) in_step_ = true;
    const bool alive = event.text == "alive";
    switch (row_.signal->moment) {
      case Moment::loaded:
        if (alive) inject();
        break;
      case Moment::step:
        if (in_step_) inject();
        break;
      case Moment::reduction:
        if (in_step_ && alive) inject();
        break;
      default:
        break;
    }
  }

  void set_temp(const std::string& folder) { temp_ = folder; }

 private:
  void look() {
    if (!row_.signal) return;
    const Moment moment = row_.signal->moment;
    const int first = std::max(0, row_.signal->ranks.front());
    if (!watch_.pid_of(first)) return;
    if (moment == Moment::start || (moment == Moment::meeting && have_met()) ||
        (moment == Moment::report && writes_report(*watch_.pid_of(first)))) {
      inject();
    }
  }

  /// The run's folder is the only one in this test's.
  bool have_met() const {
    for (const std::string& run : names_in(temp_)) {
      std::error_code none;
      const auto size = fs::file_size(temp_ + "/" + run + "/rendezvous", none);
      if (!none && size > 0) return true;
    }
    return false;
  }

  static bool writes_report(pid_t pid) {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(fmt::format("/proc/{}/fd", pid), gone)) {
      std::error_code closed;
      if (fs::read_symlink(entry.path(), closed).string().ends_with(".json.tmp")) return true;
    }
    return false;
  }

  void inject() {
    if (done_.exchange(true)) return;
    for (const int rank : row_.signal->ranks) {
      const auto pid = rank == kSupervisor ? watch_.supervisor() : watch_.pid_of(rank);
      if (pid) kill(*pid, row_.signal->signal);
    }
  }

  const FaultRow& row_;
  std::string temp_;
  bool in_step_ = false;
  std::atomic<bool> done_ = false;
  std::set<std::string> listened_;
  RankWatch watch_;
};

std::string script_text(const FaultRow& row, const std::string& worker, const std::string& cgroup) {
  return fmt::format(
      "#!/bin/sh\nworker='{}'; request=$1; rank=$2; folder=${{1%/*}}; cgroup='{}'\n{}"
      "exec \"$worker\" \"$request\" \"$rank\"\n",
      worker, cgroup, row.script);
}

std::string end_text(const Outcome& outcome) {
  std::string text(word(outcome.kind()));
  if (const OutOfMemory* full = outcome.out_of_memory()) {
    text += fmt::format(", {} in {}, rank {}", word(full->account.value()),
                        word(full->phase.value()), full->rank);
  } else if (const Failure* failure = outcome.failure(); failure && failure->rank) {
    text += fmt::format(", rank {}", *failure->rank);
  }
  return text;
}

void compare(const ExpectedEnd& expected, const Outcome& outcome, std::vector<std::string>& wrong) {
  const auto require = [&](bool holds, const char* what) {
    if (!holds) wrong.emplace_back(fmt::format("{} is another than expected", what));
  };
  require(outcome.kind() == expected.kind, "the outcome");
  if (const OutOfMemory* full = outcome.out_of_memory()) {
    require(!expected.rank || expected.rank == full->rank, "the rank");
    const bool scratch = full->account == Account::workspace && full->phase == Phase::forward;
    if (expected.or_scratch && scratch) return;
    require(!expected.phase || expected.phase == full->phase, "the phase");
    require(!expected.account || expected.account == full->account, "the account");
  } else if (const Failure* failure = outcome.failure()) {
    require(!expected.rank || expected.rank == failure->rank, "the rank");
    require(failure->detail.find(expected.detail) != std::string::npos, "the text");
  }
}

/// "ok", or what is wrong with a healthy probe: its memory is known to the byte.
std::string healthy_probe(int ranks, const RunOptions& options) {
  const probes::TrainJob job = healthy_job(ranks, 1);
  const Outcome outcome = launcher::run_probe(job, options);
  const Measurement* const measured = outcome.measurement();
  if (measured == nullptr) {
    return fmt::format("{} {}", end_text(outcome),
                       outcome.failure() ? outcome.failure()->detail : "");
  }
  const auto expected =
      estimator::quantify(job.problem, targets::builtin::traits(), job.candidate).stages.at(0);
  const Bytes peak = estimator::largest_tensors(expected).tensors.tensors();
  for (const RankMeasurement& rank : measured->ranks) {
    if (rank.tensor_peak() != peak || rank.loaded != expected.loaded ||
        rank.step_end != expected.loaded) {
      return fmt::format("other bytes on rank {}: peak {} for {}", rank.rank,
                         rank.tensor_peak().value, peak.value);
    }
  }
  return "ok";
}

class FaultRun {
 public:
  FaultRun(const FaultRow& row, const std::string& bin)
      : row_(row),
        folder_(""),
        cgroup_(row.memory_max),
        healthy_(built_programs(bin)),
        shared_before_(names_in("/dev/shm")) {
    for (const char* name : {"temp", "logs"}) fs::create_directory(folder_.path() + "/" + name);
    healthy_.temp_root = folder_.path() + "/temp";
    healthy_.deadline_s = 120;
    // A sanitizer takes a signal for a finding, and ends with an exit code.
    healthy_.environment["ASAN_OPTIONS"] = "handle_segv=0:handle_sigbus=0:handle_sigfpe=0";
  }

  FaultResult run() {
    result_.skipped = impossible();
    if (!result_.skipped.empty()) return result_;
    inject();
    result_.next = healthy_probe(row_.ranks, healthy_);
    if (result_.next != "ok") result_.wrong.emplace_back("the next probe is not healthy");
    return result_;
  }

 private:
  std::string impossible() const {
    if (access(healthy_.worker.c_str(), X_OK) != 0) return "this build has no worker";
    if (row_.starves_sanitizers && kSanitized) return "a sanitizer needs more than the row leaves";
    if (!row_.memory_max.empty() && cgroup_.path().empty()) {
      return "no cgroup v2 with a memory controller can be made here";
    }
    return "";
  }

  RunOptions faulty_options() const {
    RunOptions options = healthy_;
    options.worker = folder_.path() + "/worker";
    options.log_folder = folder_.path() + "/logs";
    launcher::write_file(options.worker, script_text(row_, healthy_.worker, cgroup_.path()));
    chmod(options.worker.c_str(), 0755);
    options.watchdog_s = 20;
    options.deadline_s = 60;
    if (row_.options) row_.options(options);
    return options;
  }

  void inject() {
    probes::TrainJob job = healthy_job(row_.ranks, row_.steps);
    if (row_.job) row_.job(job);
    RunOptions options = faulty_options();
    Injector injector(row_);
    injector.set_temp(options.temp_root);
    options.progress = [&](const auto& event) { injector.hear(event); };
    if (row_.tuner_dies) {
      lose_tuner(job, options);
    } else {
      note_outcome(launcher::run_probe(job, options));
    }
    const double returned_s = monotonic_s();
    const RanksSeen seen = injector.watch().finish(kPatience_s);
    note_times(seen, returned_s);
    look_for_remains(injector, seen);
  }

  void note_outcome(const Outcome& outcome) {
    result_.got = end_text(outcome);
    if (outcome.failure()) result_.detail = outcome.failure()->detail;
    compare(row_.expected, outcome, result_.wrong);
  }

  void lose_tuner(const probes::TrainJob& job, RunOptions options) {
    result_.got = "the tuner is gone";
    const pid_t tuner = fork();
    if (tuner == 0) {
      options.progress = [](const launcher::ProgressEvent& event) {
        if (event.text == kStep) kill(getpid(), SIGKILL);
      };
      launcher::run_probe(job, options);
      _exit(1);
    }
    int status = 0;
    waitpid(tuner, &status, 0);
    if (!WIFSIGNALED(status)) result_.wrong.emplace_back("the tuner was not killed");
  }

  void note_times(const RanksSeen& seen, double returned_s) {
    if (!seen.first_end_s) return;  // no rank was ever there
    result_.peers_gone_s = *seen.last_end_s - *seen.first_end_s;
    result_.all_gone_s = std::max(0.0, seen.all_gone_s.value_or(0) - *seen.last_end_s);
    if (!row_.tuner_dies) {
      result_.all_gone_s = std::max(*result_.all_gone_s, returned_s - *seen.last_end_s);
    }
    if (*result_.peers_gone_s > kPeersGone_s) result_.late.emplace_back("peers lived too long");
    if (*result_.all_gone_s > kAllGone_s) result_.late.emplace_back("it took too long to clean up");
  }

  void look_for_remains(Injector& injector, const RanksSeen& seen) {
    std::set<std::string> left;
    comes_true(
        [&] {
          left = remains(injector);
          return left.empty();
        },
        kPatience_s);
    for (const std::string& each : left) result_.wrong.emplace_back("left behind: " + each);
    // A sanitizer keeps what was freed.
    if (!kSanitized && seen.supervisor_peak > kSupervisorMost) {
      result_.wrong.push_back(
          fmt::format("the supervisor took {} MiB", seen.supervisor_peak >> 20));
    }
    for (const auto& log : fs::directory_iterator(folder_.path() + "/logs")) {
      if (log.file_size() > launcher::kLogHead + launcher::kLogTail + 100) {
        result_.wrong.emplace_back("a log of " + std::to_string(log.file_size()) + " bytes");
      }
    }
  }

  std::set<std::string> remains(Injector& injector) const {
    std::set<std::string> left = injector.watch().left();
    for (const std::string& each : names_in(healthy_.temp_root)) left.insert("file " + each);
    for (const std::string& each : names_in("/dev/shm")) {
      if (!shared_before_.contains(each)) left.insert("/dev/shm/" + each);
    }
    const std::set<std::string> sockets = listening_sockets();
    for (const std::string& each : injector.listened()) {
      if (sockets.contains(each)) left.insert("listening socket " + each);
    }
    return left;
  }

  const FaultRow& row_;
  const launcher::WorkFolder folder_;
  const MemoryGroup cgroup_;
  RunOptions healthy_;
  const std::set<std::string> shared_before_;
  FaultResult result_;
};

}  // namespace

FaultResult run_fault(const FaultRow& row, const std::string& bin) {
  return FaultRun(row, bin).run();
}

std::string expected_text(const FaultRow& row) {
  if (row.tuner_dies) return "the tuner is gone";
  const ExpectedEnd& expected = row.expected;
  std::string text(word(expected.kind));
  if (expected.phase)
    text += fmt::format(", {} in {}", word(*expected.account), word(*expected.phase));
  if (expected.rank) text += fmt::format(", rank {}", *expected.rank);
  return text;
}

}  // namespace planwright::testing
