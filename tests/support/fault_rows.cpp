#include "tests/support/fault_rows.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <string>
#include <system_error>

#include "launcher/targets/builtin/traits.h"
#include "launcher/unique_fd.h"
#include "tests/support/fake_traits.h"
#include "tests/support/fault_rows_memory.h"

namespace planwright::testing {
namespace {

using Rows = std::vector<FaultRow>;

/// A port of the loopback that this process listens at.
class TakenPort {
 public:
  TakenPort() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (bind(socket_.get(), any, size) != 0 || listen(socket_.get(), 1) != 0 ||
        getsockname(socket_.get(), any, &size) != 0) {
      throw std::system_error(errno, std::generic_category(), "a port to be taken");
    }
    number_ = ntohs(address.sin_port);
  }
  int number() const { return number_; }

 private:
  launcher::UniqueFd socket_;
  int number_ = 0;
};

constexpr int kEndless = 1000000;

std::string rank_text(const std::vector<int>& ranks) {
  if (ranks.front() == kSupervisor) return "supervisor";
  return fmt::format("rank{} {}", ranks.size() > 1 ? "s" : "", fmt::join(ranks, " and "));
}

std::string moment_text(Moment moment) {
  switch (moment) {
    case Moment::start:
      return "at its start";
    case Moment::meeting:
      return "while the ranks meet";
    case Moment::loaded:
      return "when it has loaded";
    case Moment::step:
      return "in a step";
    case Moment::reduction:
      return "behind the last micro-batch";
    case Moment::report:
      return "while it writes its report";
  }
  return "";
}

/// A report that can be opened and not be finished: a pipe that is full.
const std::string kStuckReport =
    "pipe=$folder/report.$rank.json.tmp; mkfifo $pipe\n"
    "(exec 9<>$pipe; head -c 65536 /dev/zero >&9; exec sleep 1000) &\n"
    "while ! [ -e /proc/$!/fd/9 ]; do sleep 0.01; done\n";

/// Longer than ranks take to start on a machine with other things to do.
std::function<void(launcher::RunOptions&)> watchdog(int ranks = 2) {
  return [ranks](launcher::RunOptions& options) { options.watchdog_s = 2.0 * ranks; };
}

std::function<void(launcher::RunOptions&)> collective_timeout(double seconds) {
  return [seconds](launcher::RunOptions& options) { options.collective_timeout_s = seconds; };
}

std::function<void(launcher::RunOptions&)> deadline(double seconds) {
  return [seconds](launcher::RunOptions& options) { options.deadline_s = seconds; };
}

/// MASTER_PORT is where something else listens. Ranks meet in a file and at ports that are free.
void take_port(launcher::RunOptions& options) {
  static const TakenPort taken;
  options.environment["MASTER_ADDR"] = "127.0.0.1";
  options.environment["MASTER_PORT"] = std::to_string(taken.number());
}

const std::string kStubbornGrandchild =
    "setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 100; done' &\n";

FaultRow signal_row(const SignalFault& signal, int ranks) {
  const bool stops = signal.signal == SIGSTOP;
  const std::string name = fmt::format("SIG{}", sigabbrev_np(signal.signal));
  FaultRow row;
  row.fault = name;
  row.where =
      fmt::format("{}{} {}", rank_text(signal.ranks),
                  ranks == 2 ? "" : fmt::format(" of {}", ranks), moment_text(signal.moment));
  row.name = fault_name(row.fault + " " + row.where);
  row.ranks = ranks;
  row.steps = signal.moment == Moment::report ? 3 : kEndless;
  row.signal = signal;
  if (signal.moment == Moment::report) row.script = kStuckReport;
  if (signal.ranks.front() == kSupervisor && !stops) {
    row.script = kStubbornGrandchild;
    row.expected = {.kind = OutcomeKind::crashed, .detail = "supervisor of the ranks was ended"};
  } else if (stops) {
    row.expected = {.kind = OutcomeKind::hung, .detail = "gave no sign of life for"};
    row.options = watchdog(ranks);
  } else {
    row.expected = {.kind = OutcomeKind::crashed, .detail = "was ended by " + name};
  }
  if (signal.ranks.size() == 1 && signal.ranks.front() != kSupervisor) {
    row.expected.rank = signal.ranks.front();
  }
  return row;
}

Rows signals() {
  using enum Moment;
  struct Each {
    SignalFault signal;
    int ranks = 2;
  };
  const Each all[] = {
      {{SIGKILL, {0}, start}},
      {{SIGKILL, {0}, meeting}},
      {{SIGKILL, {1}, loaded}},
      {{SIGKILL, {0}, step}},
      {{SIGKILL, {1}, reduction}},
      {{SIGKILL, {0}, report}},
      {{SIGSEGV, {1}, start}},
      {{SIGSEGV, {0}, step}},
      {{SIGSEGV, {1}, report}},
      {{SIGABRT, {1}, step}},
      {{SIGABRT, {0}, reduction}},
      {{SIGBUS, {0}, loaded}},
      {{SIGBUS, {1}, step}},
      {{SIGTERM, {0}, step}},
      {{SIGSTOP, {0}, start}},
      {{SIGSTOP, {1}, meeting}},
      {{SIGSTOP, {0}, step}},
      {{SIGSTOP, {1}, reduction}},
      {{SIGSTOP, {0}, report}},
      {{SIGKILL, {0, 2}, step}, 3},
      {{SIGSTOP, {1}, step}, 3},
      {{SIGKILL, {kSupervisor}, step}},
      {{SIGSTOP, {kSupervisor}, step}},
  };
  Rows rows;
  for (const Each& each : all) rows.push_back(signal_row(each.signal, each.ranks));
  return rows;
}

/// The worker as a child of the script, whose last words are then spoilt for rank 1.
std::string spoil(const std::string& action) {
  return "[ $rank = 1 ] || exec $worker $request $rank\n"
         "$worker $request $rank || exit $?\nreport=$folder/report.$rank.json\n" +
         action + "\nexit 0\n";
}

Rows reports() {
  const auto row = [](const char* name, const char* fault, const std::string& script,
                      const char* detail) {
    return FaultRow{.name = name,
                    .fault = fault,
                    .where = "rank 1, at its end",
                    .expected = {.kind = OutcomeKind::crashed, .rank = 1, .detail = detail},
                    .script = script};
  };
  const auto no_room = [](const char* name, const char* fault, const std::string& script,
                          const char* detail) {
    return FaultRow{.name = name,
                    .fault = fault,
                    .where = "rank 1, writing its report",
                    .expected = {.kind = OutcomeKind::environment, .rank = 1, .detail = detail},
                    .script = script};
  };
  return {
      row("report_missing", "no report", spoil("rm $report"), "left no report"),
      row("report_empty", "an empty report", spoil(": >$report"), "is not JSON"),
      row("report_truncated", "half a report",
          spoil("head -c 200 $report >$report.half; mv $report.half $report"), "is not JSON"),
      row("report_garbage", "a report of random bytes", spoil("head -c 5000 /dev/urandom >$report"),
          "left no report"),
      row("report_is_a_folder", "a folder in place of the report",
          spoil("rm $report; mkdir $report"), "left no report"),
      row("report_of_another_rank", "a report that claims to be another rank's",
          spoil("sed -i 's/\"rank\": 1/\"rank\": 0/' $report"), "is the report of rank 0"),
      no_room("disk_full", "a full disk",
              "[ $rank = 1 ] && ln -s /dev/full $folder/report.1.json.tmp\n",
              "No space left on device"),
      no_room("file_size_limit", "RLIMIT_FSIZE 0", "[ $rank = 1 ] && ulimit -f 0\n",
              "File too large"),
      no_room("report_cannot_be_made", "a folder at the report's temporary name",
              "[ $rank = 1 ] && mkdir $folder/report.1.json.tmp\n", "cannot create"),
      {.name = "report_never_finished",
       .fault = "a report that takes for ever",
       .where = "rank 1, writing its report",
       .expected = {.kind = OutcomeKind::hung, .rank = 1, .detail = "no sign of life"},
       .script = "if [ $rank = 1 ]; then\n" + kStuckReport + "fi\n",
       .options = watchdog()},
  };
}

Rows meetings() {
  const ExpectedEnd unmet{.kind = OutcomeKind::crashed, .detail = "the ranks did not meet"};
  return {
      {.name = "port_is_taken",
       .fault = "the port that PyTorch's launchers meet at is taken",
       .where = "all ranks, meeting",
       .expected = {},
       .options = take_port},
      {.name = "peer_never_connects",
       .fault = "a rank that never comes",
       .where = "rank 1, meeting",
       .expected = {.kind = OutcomeKind::hung, .rank = 1, .detail = "did not answer its peers"},
       .script = "[ $rank = 1 ] && while :; do sleep 100; done\n",
       .options = collective_timeout(1)},
      {.name = "ends_well_at_once",
       .fault = "a rank that ends with exit code 0 before its time",
       .where = "rank 1, meeting",
       .expected = {.kind = OutcomeKind::crashed, .rank = 1, .detail = "left no report"},
       .script = "[ $rank = 1 ] && sleep 0.1 && exit 0\n"},
      {.name = "rendezvous_is_a_folder",
       .fault = "a folder in place of the rendezvous",
       .where = "all ranks, meeting",
       .expected = unmet,
       .script = "mkdir -p $folder/rendezvous\n"},
      {.name = "rendezvous_has_no_room",
       .fault = "a rendezvous without room",
       .where = "all ranks, meeting",
       .expected = {.kind = OutcomeKind::environment, .detail = "No space left on device"},
       .script = "ln -sf /dev/full $folder/rendezvous\n",
       .options = collective_timeout(2)},
      {.name = "rendezvous_of_another_run",
       .fault = "a rendezvous file that exists: words",
       .where = "all ranks, meeting",
       .expected = {.kind = OutcomeKind::hung},
       .script = "[ -e $folder/rendezvous ] || yes | head -c 4096 >$folder/rendezvous\n",
       .options = watchdog()},
      {.name = "no_descriptor_left",
       .fault = "RLIMIT_NOFILE 6",
       .where = "rank 1, meeting",
       .expected = {.kind = OutcomeKind::environment},
       .script = "[ $rank = 1 ] && ulimit -n 6\n",
       .options = collective_timeout(2),
       .starves_sanitizers = true},
      {.name = "one_rank_never_joins_a_collective",
       .fault = "a rank that takes fewer steps than its peer",
       .where = "rank 1, in a collective",
       .expected = {.kind = OutcomeKind::crashed},
       .steps = kEndless,
       .script = "if [ $rank = 1 ]; then\n  sed 's/\"steps\":1000000/\"steps\":5/' $request "
                 ">$request.short\n  request=$request.short\nfi\n",
       .options = collective_timeout(2)},
      {.name = "stops_while_its_peer_gives_up",
       .fault = "SIGSTOP, and a short time-out of collectives",
       .where = "rank 1, in a step",
       .expected = {.kind = OutcomeKind::hung, .rank = 1, .detail = "did not answer its peers"},
       .steps = kEndless,
       .signal = SignalFault{SIGSTOP, {1}, Moment::step},
       .options = collective_timeout(1)},
  };
}

Rows manners() {
  const ExpectedEnd late{.kind = OutcomeKind::timed_out, .detail = "still running after 3 s"};
  return {
      {.name = "deadline_while_progressing",
       .fault = "the deadline, while all is well",
       .where = "all ranks, in a step",
       .expected = late,
       .steps = kEndless,
       .options = deadline(3)},
      {.name = "ignores_sigterm",
       .fault = "the deadline, and ranks that ignore SIGTERM",
       .where = "all ranks, in a step",
       .expected = late,
       .steps = kEndless,
       .script = "trap '' TERM\n",
       .options = deadline(3)},
      {.name = "grandchild_in_a_session_of_its_own",
       .fault = "SIGKILL, and a grandchild that ignores SIGTERM in a session of its own",
       .where = "rank 1, in a step",
       .expected = {.kind = OutcomeKind::crashed, .rank = 1, .detail = "SIGKILL"},
       .steps = kEndless,
       .signal = SignalFault{SIGKILL, {1}, Moment::step},
       .script = kStubbornGrandchild},
      {.name = "daemon_survives_a_good_end",
       .fault = "a daemon that outlives the rank",
       .where = "all ranks, at their end",
       .expected = {},
       .script = "(setsid setsid sh -c 'trap \"\" TERM HUP; sleep 1000' &)\n"},
      {.name = "slow_rank",
       .fault = "a rank that runs a third of the time",
       .where = "rank 1",
       .expected = {},
       .steps = 30,
       .script = "[ $rank = 1 ] && (while kill -STOP $$; do sleep 0.02; kill -CONT $$; "
                 "sleep 0.01; done) 2>/dev/null &\n"},
      {.name = "output_flood",
       .fault = "1 GB on stdout and stderr",
       .where = "all ranks",
       .expected = {},
       .script = "yes on stderr | head -c 250000000 >&2 &\n"
                 "yes on stdout | head -c 250000000; wait\n",
       .options = deadline(30)},
      {.name = "progress_flood",
       .fault = "signs of life without end",
       .where = "rank 1",
       .expected = {},
       .script = "[ $rank = 1 ] && yes alive >&3 &\n"},
      {.name = "progress_closed",
       .fault = "no pipe for signs of life",
       .where = "all ranks",
       .expected = {},
       .script = "exec 3>&-\n"},
      {.name = "cpu_time_limit",
       .fault = "RLIMIT_CPU 2 s",
       .where = "rank 1, in a step",
       .expected = {.kind = OutcomeKind::crashed, .rank = 1, .detail = "SIGXCPU"},
       .steps = kEndless,
       .script = "[ $rank = 1 ] && ulimit -S -t 2\n"},
      {.name = "worker_cannot_be_executed",
       .fault = "a worker that is no program",
       .where = "all ranks",
       .expected = {.kind = OutcomeKind::environment, .rank = 0, .detail = "cannot execute"},
       .options = [](launcher::RunOptions& options) { options.worker = "/dev/null"; }},
      {.name = "loss_is_not_a_number",
       .fault = "a loss that is not a number",
       .where = "all ranks",
       .expected = {.kind = OutcomeKind::crashed,
                    .detail = "the plan does not train: the loss of "
                              "step 1 is not a finite number"},
       .job = [](probes::TrainJob& job) { job.problem.model.norm_eps = -1e9; }},
      {.name = "tuner_is_killed",
       .fault = "SIGKILL",
       .where = "tuner, in a step",
       .expected = {},
       .steps = kEndless,
       .tuner_dies = true},
  };
}

Rows all_rows() {
  Rows all;
  for (Rows rows : {memory_faults(), signals(), meetings(), reports(), manners()}) {
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

std::string fault_name(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
}

const std::vector<FaultRow>& fault_rows() {
  static const Rows rows = all_rows();
  return rows;
}

probes::TrainJob healthy_job(int ranks, int steps) {
  const TargetTraits& traits = targets::builtin::traits();
  Problem problem = fake_problem(tiny_llama(), ranks, Precision::fp32);
  problem.target = "builtin";
  problem.target_version = traits.version;
  problem.workload.global_batch = 4 * ranks;  // one micro-batch per rank and step
  ProbeScope scope;
  scope.steps = steps;
  return launcher::make_train_job(problem, data_parallel(ranks, ranks > 1 ? 1 : 0, 4), scope,
                                  traits, 1);
}

}  // namespace planwright::testing
