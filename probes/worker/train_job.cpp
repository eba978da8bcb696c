#include "probes/worker/train_job.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "probes/worker/clock.h"
#include "probes/worker/device.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/dump.h"
#include "probes/worker/kernels.h"
#include "probes/worker/loss_scale.h"
#include "probes/worker/model_state.h"
#include "probes/worker/optimizer.h"
#include "probes/worker/supported.h"
#include "probes/worker/tokens.h"
#include "probes/worker/transformer.h"

namespace planwright::worker {
namespace {

class TrainRun {
 public:
  TrainRun(const probes::TrainJob& job, const Rank& rank)
      : job_(job),
        rank_(rank),
        dp_(job.candidate.dp),
        shards_(job.candidate.zero == 1 ? dp_ : 1),
        accumulation_(static_cast<int>(accumulation(job.problem, job.candidate))),
        state_(load_model(job.problem, flat_layout(job.problem.model, shards_, job.bucket_elements),
                          job.seed, rank.device)),
        optimizer_(job.problem.workload, state_, shards_ > 1 ? rank.collectives.rank() : 0),
        loss_scale_(job.problem.workload.recipe, rank.device) {}

  /// This rank's share of the step's loss.
  double step(int number);
  void dump_weights() const { dump_flat(job_.dump + ".weights", state_.parameters, state_.layout); }

 private:
  MicroBatch next_micro_batch(int step, int micro) const;
  void reduce_gradients();
  void gather_parameters();
  void dump_gradients(double loss);
  bool dumps() const { return !job_.dump.empty(); }
  at::Tensor bucket(const at::Tensor& flat, const FlatBucket& bucket) const {
    return flat.narrow(0, bucket.begin, bucket.numel);
  }

  const probes::TrainJob& job_;
  const Rank& rank_;
  int dp_;
  int shards_;
  int accumulation_;
  ModelState state_;
  Optimizer optimizer_;
  LossScale loss_scale_;
};

MicroBatch TrainRun::next_micro_batch(int step, int micro) const {
  const PhaseScope phase(Phase::forward);
  const Workload& workload = job_.problem.workload;
  const std::int64_t batch = job_.candidate.micro_batch;
  const std::int64_t first =
      step * workload.global_batch + (std::int64_t{micro} * dp_ + rank_.collectives.rank()) * batch;
  return micro_batch(job_.seed, first, batch, workload.seq, job_.problem.model.vocab, rank_.device);
}

double TrainRun::step(int number) {
  const Workload& workload = job_.problem.workload;
  const double scale =
      1.0 / static_cast<double>(job_.candidate.micro_batch * workload.seq * accumulation_ * dp_);
  const PassContext pass{job_.problem.model, state_.weights, kernels(job_.kernels),
                         job_.candidate.recompute.kind == RecomputeKind::full,
                         scale * loss_scale_.value()};
  state_.gradients.zero_();
  double loss = 0;
  for (int micro = 0; micro < accumulation_; ++micro) {
    loss += scale * forward_backward(pass, next_micro_batch(number, micro));
    rank_.progress.alive();
  }
  reduce_gradients();
  if (dumps() && number == 0) dump_gradients(loss);
  const PhaseScope phase(Phase::optimizer);
  const double unscale = 1 / loss_scale_.value();
  if (loss_scale_.accept(optimizer_.gradients(), rank_.collectives)) optimizer_.step(unscale);
  gather_parameters();
  return loss;
}

void TrainRun::reduce_gradients() {
  const PhaseScope phase(Phase::reduce);
  const bool scatter = shards_ > 1 && Collectives::transport() == Transport::nccl;
  for (const FlatBucket& each : state_.layout.buckets) {
    if (scatter) {
      rank_.collectives.reduce_scatter(bucket(state_.gradients, each));
    } else {
      rank_.collectives.all_reduce(bucket(state_.gradients, each));
    }
  }
}

void TrainRun::gather_parameters() {
  if (shards_ == 1) return;
  for (const FlatBucket& each : state_.layout.buckets) {
    if (Collectives::transport() == Transport::nccl) {
      rank_.collectives.all_gather(bucket(state_.parameters, each));
      continue;
    }
    for (int owner = 0; owner < shards_; ++owner) {
      rank_.collectives.broadcast(bucket_slice(state_.parameters, state_.layout, each, owner),
                                  owner);
    }
  }
}

void TrainRun::dump_gradients(double loss) {
  if (shards_ > 1 && Collectives::transport() == Transport::nccl) {
    for (const FlatBucket& each : state_.layout.buckets) {
      rank_.collectives.all_gather(bucket(state_.gradients, each));
    }
  }
  const at::Tensor mean = at::tensor({loss}, at::TensorOptions(at::kDouble).device(rank_.device));
  rank_.collectives.all_reduce(mean);
  if (rank_.collectives.rank() != 0) return;
  dump_flat(job_.dump + ".gradients", state_.gradients, state_.layout, mean.item<double>(),
            1 / loss_scale_.value());
}

void note_peaks(RankMeasurement& measurement) {
  const MemoryPeaks peaks = memory_peaks();
  measurement.peak = peaks.allocated;
  measurement.peak_phase = peaks.allocated_phase;
  measurement.tensors = peaks.tensors;
  measurement.tensors_phase = peaks.tensors_phase;
  const MemoryOutside outside = memory_outside();
  measurement.reserved_peak = outside.reserved_peak;
  measurement.device_peak = outside.device_peak;
  measurement.rss_peak = outside.rss_peak;
}

/// Sums over ranks of this rank's shares. gloo's thread lets go of a collective's tensors only
/// after the caller has gone on, so these stand in the vector's own memory: when they are summed,
/// every earlier collective's are gone, and the next job begins with empty books. (A barrier would
/// not do: it keeps the collective before it alive for as long as itself.)
std::vector<double> over_ranks(std::vector<double> shares, const Rank& rank) {
  const AccountScope account(Account::communication);
  const at::Tensor own =
      at::from_blob(shares.data(), static_cast<std::int64_t>(shares.size()), at::kDouble);
  const at::Tensor sums = own.to(rank.device);
  rank.collectives.all_reduce(sums);
  own.copy_(sums);
  return shares;
}

/// This rank's shares of the steps' losses.
std::vector<double> take_steps(const probes::TrainJob& job, const Rank& rank, TrainRun& run,
                               probes::RankReport& report, RankMeasurement& measurement) {
  std::vector<double> shares;
  for (int number = 0; number < job.scope.warmup + job.scope.steps; ++number) {
    if (number == job.scope.warmup) reset_memory_peaks();
    rank.progress.step(number);
    const double begin = monotonic_s();
    if (report.first_step_monotonic_s == 0) {
      report.first_step_monotonic_s = begin;
      measurement.startup_s = seconds_since_process_start();
    }
    shares.push_back(run.step(number));
    synchronize(rank.device);
    if (number >= job.scope.warmup) measurement.steps_s.push_back(monotonic_s() - begin);
  }
  return shares;
}

/// The peaks are kept also when the job ends by an exception.
class PeakNote {
 public:
  explicit PeakNote(RankMeasurement& measurement) : measurement_(measurement) {}
  ~PeakNote() { note_peaks(measurement_); }
  PeakNote(const PeakNote&) = delete;
  PeakNote& operator=(const PeakNote&) = delete;

 private:
  RankMeasurement& measurement_;
};

}  // namespace

void run_train_job(const probes::TrainJob& job, const Rank& rank, probes::RankReport& report,
                   probes::RankJobReport& job_report) {
  check_supported(job, rank.collectives.world());
  RankMeasurement& measurement = job_report.measurement;
  measurement.rank = rank.collectives.rank();
  const BudgetScope budget(job.memory_budget);
  std::optional<TrainRun> run;
  std::vector<double> shares;
  {
    const PeakNote note(measurement);
    reset_memory_peaks();
    run.emplace(job, rank);
    measurement.loaded = live_memory();
    rank.progress.alive();
    shares = take_steps(job, rank, *run, report, measurement);
    measurement.step_end = live_memory();
  }
  job_report.losses = over_ranks(std::move(shares), rank);
  if (!job.dump.empty() && rank.collectives.rank() == 0) run->dump_weights();
}

}  // namespace planwright::worker
