#pragma once

#include "cli/targets.h"
#include "estimator/models.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"

/// Round values for tests of what is printed.
namespace planwright::testing {

constexpr Bytes mib(std::int64_t count) { return {count << 20}; }
constexpr Bytes whole_gib(std::int64_t count) { return {count << 30}; }

inline TargetTraits printed_traits() { return cli::find_target({"builtin", "", ""})->traits; }

/// Eight accelerators of 80 GiB.
inline Problem printed_problem() {
  Problem problem;
  problem.model = estimator::find_model("llama-2-7b", "", "");
  problem.cluster.device.name = "A100-SXM4-80GB";
  problem.cluster.device.kind = DeviceKind::cuda;
  problem.cluster.device.memory = whole_gib(80);
  problem.cluster.per_node = 8;
  problem.workload.seq = 4096;
  problem.workload.global_batch = 64;
  problem.target = "builtin";
  return problem;
}

/// Two CPU ranks of 160 MiB.
inline Problem printed_cpu_problem() {
  Problem problem = printed_problem();
  problem.cluster.device = {};
  problem.cluster.device.name = "AMD EPYC";
  problem.cluster.device.memory = mib(160);
  problem.cluster.per_node = 2;
  problem.workload.headroom.fraction = 0;
  return problem;
}

inline Candidate printed_candidate(int micro_batch, int zero = 1) {
  Candidate candidate;
  candidate.dp = 8;
  candidate.zero = zero;
  candidate.micro_batch = micro_batch;
  return candidate;
}

inline Ledger printed_ledger(Bytes unit) {
  Ledger ledger;
  ledger[Account::parameters] = 12 * unit;
  ledger[Account::gradients] = 25 * unit;
  ledger[Account::optimizer] = 9 * unit;
  ledger[Account::activations] = 3 * unit;
  ledger[Account::logits] = unit;
  return ledger;
}

inline Estimate printed_estimate(Verdict verdict, bool on_device, Bytes unit) {
  Estimate estimate;
  estimate.verdict = verdict;
  if (verdict != Verdict::fits) estimate.reason = "the reason, with what would help";
  if (verdict == Verdict::invalid) return estimate;
  StageEstimate stage;
  stage.phase = Phase::loss;
  stage.accounts = printed_ledger(unit);
  stage.tensor_peak = stage.accounts.tensors();
  if (on_device) {
    stage.accounts[Account::context] = unit;
    stage.accounts[Account::fragmentation] = 2 * unit;
    stage.reserved = 52 * unit;
    stage.device_used = 53 * unit;
  }
  estimate.stages = {stage};
  estimate.time = {Seconds{6.9}, Seconds{1.7}, Seconds{0.15}, {}, Seconds{0.0205}, {}};
  estimate.step_time = estimate.time.total();
  estimate.tokens_per_second_per_device = 3687.4;
  estimate.mfu = 0.554;
  estimate.memory_rel = 0.005;
  estimate.time_rel = 0.19;
  estimate.fit_probability = 0.998;
  return estimate;
}

inline Trial printed_trial(std::int64_t number, double rate, Bytes unit) {
  Trial trial;
  trial.number = number;
  trial.candidate = printed_candidate(static_cast<int>(number) + 1);
  trial.estimate = printed_estimate(Verdict::fits, false, unit);
  trial.why = "highest expected improvement (+2.6 %, p(fit) 1.00, 7 untried)";
  trial.started_unix_s = 1'800'000'000;
  trial.finished_unix_s = 1'800'000'004.5;
  Measurement measured;
  measured.ranks = {RankMeasurement{}};
  measured.ranks[0].peak = printed_ledger(unit);
  measured.ranks[0].peak[Account::workspace] = unit;
  measured.ranks[0].peak_phase = Phase::backward;
  measured.ranks[0].tensors = measured.ranks[0].peak;
  measured.ranks[0].tensors[Account::workspace] = {};
  measured.step_time_s = 512 / rate;
  measured.tokens_per_second_per_device = rate;
  trial.outcome.value = measured;
  return trial;
}

inline Outcome printed_out_of_memory() {
  OutOfMemory full;
  full.requested = mib(16);
  full.allocated = mib(150);
  full.capacity = mib(160);
  full.account = Account::logits;
  full.phase = Phase::loss;
  full.rank = 1;
  Outcome outcome;
  outcome.value = full;
  return outcome;
}

}  // namespace planwright::testing
