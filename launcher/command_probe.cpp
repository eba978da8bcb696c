#include "launcher/command_probe.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "estimator/spec/error.h"
#include "launcher/classify.h"
#include "launcher/command_log.h"
#include "launcher/command_report.h"
#include "launcher/command_verdict.h"
#include "launcher/detect/cgroup.h"
#include "launcher/disturbance.h"
#include "launcher/files.h"
#include "launcher/logs/generic_format.h"
#include "launcher/missing_script.h"
#include "launcher/observer_report.h"
#include "launcher/process_group.h"
#include "launcher/run_watch.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;

constexpr const char* kReportVariable = "PLANWRIGHT_REPORT";
constexpr const char* kTemporaryVariable = "TMPDIR";  // torchrun leaves folders behind
constexpr const char* kObserverVariable = "PLANWRIGHT_OBSERVER";
constexpr const char* kStepsVariable = "PLANWRIGHT_OBSERVER_STEPS";
constexpr const char* kBudgetVariable = "PLANWRIGHT_OBSERVER_BUDGET";

std::string environment_value(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// As execvp would find it, in the PATH that the ranks get. A WorldError if it is not there.
std::string found_program(const std::string& program,
                          const std::map<std::string, std::string>& given) {
  if (auto found = find_program(program, given)) return *std::move(found);
  throw WorldError(fmt::format(
      "{} is not in the PATH: activate the environment that it is installed in, or give "
      "one (--environment PATH=...)",
      program));
}

std::string observer_folder(const CommandJob& job) {
  return job.observer.empty() ? program_folder() + "/observer" : job.observer;
}

/// The user's own module path goes on behind the observer's folder.
std::string module_path(const CommandJob& job, const std::map<std::string, std::string>& given) {
  const auto named = given.find("PYTHONPATH");
  const std::string own = named != given.end() ? named->second : environment_value("PYTHONPATH");
  return own.empty() ? observer_folder(job) : observer_folder(job) + ":" + own;
}

std::map<std::string, std::string> environment_of(const CommandJob& job, const RunOptions& options,
                                                  const CommandFolders& folders) {
  std::map<std::string, std::string> environment = job.environment;
  environment.insert(options.environment.begin(), options.environment.end());
  environment[kReportVariable] = folders.report;
  environment.emplace(kTemporaryVariable, folders.temporary);
  // What a script prints into a pipe is a sign of life, and there if it is killed, only if it does
  // not keep it back.
  environment.try_emplace("PYTHONUNBUFFERED", "1");
  if (!job.observe) return environment;
  environment["PYTHONPATH"] = module_path(job, environment);
  environment[kObserverVariable] = folders.observed;
  environment[kStepsVariable] = std::to_string(job.scope.warmup + job.scope.steps);
  if (job.budget) environment[kBudgetVariable] = std::to_string(job.budget->value);
  return environment;
}

GroupSpec group_of(const CommandJob& job, const RunOptions& options, const WorkFolder& work,
                   const CommandFolders& folders) {
  RankCommand command;
  command.argv = job.argv;
  command.environment = environment_of(job, options, folders);
  command.argv.front() = found_program(job.argv.front(), command.environment);
  command.log_path = folders.log;
  GroupSpec spec;
  spec.ranks = {std::move(command)};
  spec.work_folder = job.folder.empty() ? work.path() : job.folder;
  return spec;
}

/// Whether any file of the run has grown since it was last asked: a sign of life of a script that
/// knows nothing of us.
class Growth {
 public:
  explicit Growth(CommandFolders folders) : folders_(std::move(folders)) {}

  bool operator()() {
    const std::uintmax_t now =
        size_of(folders_.report) + size_of(folders_.log) + sizes_in(folders_.observed);
    return std::exchange(last_, now) != now;
  }

 private:
  static std::uintmax_t size_of(const fs::path& file) {
    std::error_code error;
    const std::uintmax_t size = fs::file_size(file, error);
    return error ? 0 : size;
  }
  static std::uintmax_t sizes_in(const std::string& folder) {
    std::error_code error;
    std::uintmax_t size = 0;
    for (fs::directory_iterator each(folder, error), end; !error && each != end;
         each.increment(error)) {
      size += size_of(each->path());
    }
    return size;
  }

  CommandFolders folders_;
  std::uintmax_t last_ = 0;
};

LogReader log_reader(const CommandJob& job) {
  return LogReader(job.log_formats.empty() ? std::vector{generic_log_format()} : job.log_formats);
}

WatchedRun watched_run(const CommandJob& job, const RunOptions& options, const WorkFolder& work,
                       const CommandFolders& folders) {
  const std::int64_t oom_kills = oom_kill_count();
  ProcessGroup group(supervisor_path(options), group_of(job, options, work, folders));
  WatchedRun run = watch(group, options, Growth(folders));
  run.end.oom_killed = oom_kill_count() > oom_kills;
  return run;
}

CommandEnd run_in(const CommandJob& job, const RunOptions& options, const WorkFolder& work,
                  const CommandFolders& folders) {
  LogReader reader = log_reader(job);
  const CpuUse begin = cpu_use();
  CommandEnd end;
  end.run = watched_run(job, options, work, folders).end;
  // Every process of the run has been waited for, so that its time counts as our own.
  const CpuUse after = cpu_use();
  end.run_s = after.at_s - begin.at_s;
  end.others = share_of_others(begin, after);
  if (job.observe) {
    end.watched = watched_processes(folders.observed);
    end.observed = read_observed(folders.observed);
  }
  end.report = read_command_report(folders.report);
  const RankFate* fate = fate_of_command(end);
  const std::string tail = fate == nullptr ? "" : fate->log_tail;
  end.log = read_command_log(folders.log, tail, std::move(reader));
  return end;
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) throw WorldError("cannot make " + path + ": " + error.message());
}

}  // namespace

CommandOutcome run_command(const CommandJob& job, const RunOptions& options) {
  try {
    const WorkFolder work(job.folder.empty() ? options.temp_root : job.folder);
    const std::string logs = options.log_folder.empty() ? work.path() : options.log_folder;
    const CommandFolders folders{work.path() + "/report.json", work.path() + "/observed",
                                 logs + "/command.log", work.path() + "/tmp"};
    make_folder(folders.observed);
    make_folder(folders.temporary);
    return command_verdict(job, run_in(job, options, work, folders));
  } catch (const WorldError& error) {
    return {Outcome{Failure{OutcomeKind::environment, error.what(), "", {}}, {}}, {}, {}};
  }
}

}  // namespace planwright::launcher
