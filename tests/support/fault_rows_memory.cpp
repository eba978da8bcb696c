#include "tests/support/fault_rows_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "estimator/quantities.h"
#include "launcher/targets/builtin/traits.h"

namespace planwright::testing {
namespace {

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

/// Most of the memory in the logits, in bf16, so that the loss takes a wider copy of them: as much
/// as the product that makes them has of scratch where the CPU knows bf16, and less where it does
/// not.
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

std::vector<FaultRow> device_memory() {
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
  std::vector<FaultRow> rows;
  for (const Each& each : all) {
    for (const bool one_of_two : {false, true}) {
      if (one_of_two && !each.also_one_of_two) continue;
      FaultRow row;
      row.fault = fmt::format("device memory full: {} in {}", word(each.account), word(each.phase));
      row.where = one_of_two ? "rank 1, its peer in a collective" : "the only rank";
      row.name = fault_name(fmt::format("full {} {} {}", word(each.account), word(each.phase),
                                        one_of_two ? "rank 1 of 2" : "alone"));
      row.job = each.job;
      row.ranks = one_of_two ? 2 : 1;
      if (one_of_two) row.script = kRoomElsewhere;
      row.expected = {
          .kind = OutcomeKind::out_of_memory, .phase = each.phase, .account = each.account};
      if (one_of_two) row.expected.rank = 1;
      row.expected.or_scratch = each.phase == Phase::loss && each.account == logits;
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

std::vector<FaultRow> host_memory() {
  const ExpectedEnd full{.kind = OutcomeKind::host_out_of_memory, .rank = 1};
  return {
      {.name = "address_space_too_small_for_the_tensors",
       .fault = "RLIMIT_AS below the tensors",
       .where = "rank 1, loading the model",
       .expected = full,
       .script = "[ $rank = 1 ] && ulimit -v 4000000\n",
       .job = make_huge,
       .starves_sanitizers = true},
      {.name = "address_space_too_small_for_the_libraries",
       .fault = "RLIMIT_AS below the libraries",
       .where = "rank 1, at its start",
       .expected = {.kind = OutcomeKind::environment, .rank = 1, .detail = "failed to map segment"},
       .script = "[ $rank = 1 ] && ulimit -v 200000\n",
       .starves_sanitizers = true},
      {.name = "data_segment_too_small",
       .fault = "RLIMIT_DATA below the tensors",
       .where = "rank 1, loading the model",
       .expected = full,
       .script = "[ $rank = 1 ] && ulimit -d 2000000\n",
       .job = make_huge,
       .starves_sanitizers = true},
      {.name = "cgroup_memory_max",
       .fault = "cgroup v2 memory.max below the tensors",
       .where = "all ranks",
       .expected = {.kind = OutcomeKind::host_out_of_memory},
       .script = "echo $$ >$cgroup/cgroup.procs\n",
       .job = make_large,
       .memory_max = "300M"},
  };
}

}  // namespace

std::vector<FaultRow> memory_faults() {
  std::vector<FaultRow> all = device_memory();
  for (FaultRow& row : host_memory()) all.push_back(std::move(row));
  return all;
}

}  // namespace planwright::testing
