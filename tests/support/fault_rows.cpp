#include "tests/support/fault_rows.h"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>

#include <algorithm>
#include <iterator>

#include "estimator/quantities.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/fake_traits.h"

namespace planwright::testing {
namespace {

using Rows = std::vector<FaultRow>;

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

std::string identifier(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return text;
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
  row.name = identifier(row.fault + " " + row.where);
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

/// The only stage's.
estimator::StageQuantities quantities(const probes::TrainJob& job) {
  TargetTraits traits = targets::builtin::traits();
  traits.kernels = [&](DeviceKind) { return job.kernels; };
  return estimator::quantify(job.problem, traits, job.candidate).stages.front();
}

/// What is alive at the largest instant of `phase`, workspace included.
Bytes largest_in(const probes::TrainJob& job, Phase phase) {
  const auto all = quantities(job).phases;
  const auto& found =
      *std::find_if(all.begin(), all.end(), [&](const auto& each) { return each.phase == phase; });
  return std::max(found.tensors.allocated(), found.kernels.allocated());
}

/// Most of the memory in the logits, in bf16, so that the loss takes a wider copy of them: more
/// than a product that makes them has of scratch.
void make_wordy(probes::TrainJob& job) {
  job.problem.model.vocab = 5000;
  job.problem.workload.precision = Precision::bf16;
  job.problem.workload.recipe = targets::builtin::traits().recipe(Precision::bf16).value();
}

/// Most of the memory in the blocks' matrices.
void make_wide(probes::TrainJob& job) {
  job.problem.model.vocab = 11;
  job.problem.model.runs.front().block.ffn = 500;
}

/// Most of the memory in the workspace of attention: a long sequence of narrow tokens.
void make_long(probes::TrainJob& job) {
  ModelSpec& model = job.problem.model;
  model.vocab = 4;
  model.hidden = 8;
  model.runs.front().block.heads = model.runs.front().block.kv_heads = 1;
  model.runs.front().block.ffn = 8;
  job.problem.workload.seq = model.max_positions = 512;
  job.problem.workload.global_batch = 2;
  job.candidate.micro_batch = 1;
}

std::function<void(probes::TrainJob&)> too_small_for(
    Phase phase, const std::function<void(probes::TrainJob&)>& shape) {
  return [=](probes::TrainJob& job) {
    shape(job);
    job.memory_budget = largest_in(job, phase) - Bytes{1};
  };
}

/// Rank 1 alone has the job's budget.
const std::string kRoomElsewhere =
    "if [ $rank != 1 ]; then\n"
    "  sed 's/\"memory_budget_bytes\":[0-9]*/\"memory_budget_bytes\":1000000000/' $request "
    ">$request.roomy\n  request=$request.roomy\nfi\n";

Rows device_memory() {
  using enum Account;
  struct Each {
    Phase phase;
    Account account;
    std::function<void(probes::TrainJob&)> job;
    bool also_one_of_two = false;  ///< on rank 1 only, too
  };
  const auto as_it_is = [](probes::TrainJob&) {};
  const auto wide_recomputed = [](probes::TrainJob& job) {
    make_wide(job);
    job.candidate.recompute.kind = RecomputeKind::full;
  };
  const auto composed = [](probes::TrainJob& job) { job.kernels = KernelSet::composed; };
  const auto wide_composed = [=](probes::TrainJob& job) {
    make_wide(job);
    composed(job);
  };
  // Weights and gradients are equally large, and come in this order.
  const auto both_but_a_byte = [](probes::TrainJob& job) {
    job.memory_budget = quantities(job).loaded[gradients] + quantities(job).loaded[gradients];
    *job.memory_budget = *job.memory_budget - Bytes{1};
  };
  const Each all[] = {
      {Phase::load, parameters, [](auto& job) { job.memory_budget = Bytes{0}; }, true},
      {Phase::load, gradients, both_but_a_byte},
      {Phase::load, optimizer, too_small_for(Phase::load, as_it_is)},
      {Phase::forward, activations, too_small_for(Phase::forward, wide_recomputed), true},
      {Phase::forward, workspace, too_small_for(Phase::forward, make_long)},
      {Phase::forward, logits, too_small_for(Phase::forward, as_it_is), true},
      {Phase::loss, logits, too_small_for(Phase::loss, make_wordy)},
      {Phase::loss, activations, too_small_for(Phase::loss, composed)},
      {Phase::backward, activations, too_small_for(Phase::backward, wide_composed)},
      {Phase::backward, workspace, too_small_for(Phase::backward, make_long), true},
  };
  Rows rows;
  for (const Each& each : all) {
    for (const bool one_of_two : {false, true}) {
      if (one_of_two && !each.also_one_of_two) continue;
      FaultRow row;
      row.fault = fmt::format("device memory full: {} in {}", word(each.account), word(each.phase));
      row.where = one_of_two ? "rank 1, its peer in a collective" : "the only rank";
      row.name = identifier(fmt::format("full {} {} {}", word(each.account), word(each.phase),
                                        one_of_two ? "rank 1 of 2" : "alone"));
      row.job = each.job;
      row.ranks = one_of_two ? 2 : 1;
      if (one_of_two) row.script = kRoomElsewhere;
      row.expected = {
          .kind = OutcomeKind::out_of_memory, .phase = each.phase, .account = each.account};
      if (one_of_two) row.expected.rank = 1;
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

/// A model whose weights alone are some gigabytes, on a device that has them.
void make_huge(probes::TrainJob& job) {
  job.problem.model.vocab = 40000000;
  job.memory_budget = Bytes{std::int64_t{1} << 40};
}

/// Half a gigabyte of weights and states.
void make_large(probes::TrainJob& job) {
  job.problem.model.vocab = 1000000;
  job.memory_budget = Bytes{std::int64_t{1} << 40};
}

Rows host_memory() {
  const ExpectedEnd full{.kind = OutcomeKind::host_out_of_memory, .rank = 1};
  return {
      {.name = "address_space_too_small_for_the_tensors",
       .fault = "RLIMIT_AS below the tensors",
       .where = "rank 1, loading the model",
       .expected = full,
       .script = "[ $rank = 1 ] && ulimit -v 4000000\n",
       .job = make_huge,
       .limits_address_space = true},
      {.name = "address_space_too_small_for_the_libraries",
       .fault = "RLIMIT_AS below the libraries",
       .where = "rank 1, at its start",
       .expected = {.kind = OutcomeKind::environment, .rank = 1, .detail = "failed to map segment"},
       .script = "[ $rank = 1 ] && ulimit -v 200000\n",
       .limits_address_space = true},
      {.name = "data_segment_too_small",
       .fault = "RLIMIT_DATA below the tensors",
       .where = "rank 1, loading the model",
       .expected = full,
       .script = "[ $rank = 1 ] && ulimit -d 2000000\n",
       .job = make_huge,
       .limits_address_space = true},
      {.name = "cgroup_memory_max",
       .fault = "cgroup v2 memory.max below the tensors",
       .where = "all ranks",
       .expected = {.kind = OutcomeKind::host_out_of_memory},
       .script = "echo $$ >$cgroup/cgroup.procs\n",
       .job = make_large,
       .memory_max = "300M"},
  };
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
       .options = collective_timeout(2)},
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
  for (Rows rows : {device_memory(), host_memory(), signals(), meetings(), reports(), manners()}) {
    std::move(rows.begin(), rows.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace

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
