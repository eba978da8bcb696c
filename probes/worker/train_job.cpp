#include "probes/worker/train_job.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/pipeline.h"
#include "estimator/spec/rank_grid.h"
#include "probes/worker/clock.h"
#include "probes/worker/data_parallel.h"
#include "probes/worker/device.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/dump.h"
#include "probes/worker/job_groups.h"
#include "probes/worker/kernels.h"
#include "probes/worker/loss_scale.h"
#include "probes/worker/model_state.h"
#include "probes/worker/optimizer.h"
#include "probes/worker/spending.h"
#include "probes/worker/supported.h"
#include "probes/worker/tokens.h"
#include "probes/worker/transformer.h"

namespace planwright::worker {
namespace {

JobGroups groups_of_job(const probes::TrainJob& job, const Rank& rank) {
  if (job.scope.kind == ScopeKind::shadow) return stand_in_groups(job.candidate, job.scope.rank);
  return real_groups(job.candidate, rank.collectives);
}

class TrainRun {
 public:
  TrainRun(const probes::TrainJob& job, const Rank& rank)
      : job_(job),
        rank_(rank),
        number_(job.scope.kind == ScopeKind::shadow ? job.scope.rank : rank.collectives.rank()),
        place_(place_of(job.candidate, number_)),
        groups_(groups_of_job(job, rank)),
        tensor_(*groups_.tensor, job.candidate.sp),
        state_(
            load_model(job.problem, model_part(job.problem.model, job.candidate, number_),
                       flat_layout(job.problem.model, job.candidate, number_, job.bucket_elements),
                       {.parameters = job.candidate.zero >= 3,
                        .gradients = job.candidate.zero >= 2,
                        .rank = groups_.shard->rank()},
                       job.seed, rank.device)),
        data_(state_, groups_, job.overlap),
        optimizer_(job.problem.workload, state_),
        loss_scale_(job.problem.workload.recipe, rank.device),
        steps_(
            pipeline_steps(job.candidate.schedule, place_.pp, job.candidate.pp, micro_batches())) {}

  /// This rank's share of the step's loss.
  double step(int number);
  /// For every rank to call.
  void dump_weights() { dump("weights", state_.parameters, state_.sharding.parameters, {}); }

 private:
  std::int64_t micro_batches() const { return accumulation(job_.problem, job_.candidate); }
  double gradient_scale() const;
  PassContext pass_context(std::int64_t first_sample);
  std::int64_t first_sample(int step, std::int64_t micro) const;
  MicroBatch next_micro_batch(std::int64_t first_sample) const;
  void forward(int step, std::int64_t micro);
  double backward(std::int64_t micro);
  void hand_over(const Handover& handover);
  at::Tensor stage_input() const;
  void dump(const std::string& what, const at::Tensor& flat, bool sharded,
            std::optional<double> first, double factor = 1);
  void dump_gradients(double loss);
  bool dumps() const { return !job_.dump.empty(); }

  const probes::TrainJob& job_;
  const Rank& rank_;
  int number_;
  RankPlace place_;
  JobGroups groups_;
  TensorParallel tensor_;
  ModelState state_;
  DataParallel data_;
  Optimizer optimizer_;
  LossScale loss_scale_;
  std::vector<PipelineStep> steps_;
  std::deque<Pass> in_flight_;
  at::Tensor x_, y_, dy_, dx_;  ///< what the next pass takes, and what the last one gave
};

double TrainRun::gradient_scale() const {
  return 1.0 / static_cast<double>(job_.problem.workload.global_batch * job_.problem.workload.seq);
}

PassContext TrainRun::pass_context(std::int64_t first_sample) {
  const Workload& workload = job_.problem.workload;
  return {.model = job_.problem.model,
          .part = state_.part,
          .weights = state_.weights,
          .kernels = kernels(job_.kernels),
          .tensor = tensor_,
          .windows = data_,
          .recompute = job_.candidate.recompute,
          .gradient_scale = gradient_scale() * loss_scale_.value(),
          .attention = job_.candidate.attention,
          .loss = job_.candidate.loss,
          .dropout = {.hidden = workload.hidden_dropout,
                      .attention = workload.attention_dropout,
                      .seed = job_.seed,
                      .first_sample = first_sample}};
}

/// Of this data rank's micro-batch, in the endless stream of samples.
std::int64_t TrainRun::first_sample(int step, std::int64_t micro) const {
  return step * job_.problem.workload.global_batch +
         (micro * job_.candidate.dp + place_.dp) * job_.candidate.micro_batch;
}

MicroBatch TrainRun::next_micro_batch(std::int64_t first) const {
  return micro_batch(job_.seed, first, job_.candidate.micro_batch, job_.problem.workload.seq,
                     job_.problem.model.vocab, rank_.device,
                     {.ids = state_.part.first, .targets = state_.part.last});
}

void TrainRun::forward(int step, std::int64_t micro) {
  const PhaseScope phase(Phase::forward);
  const std::int64_t first = first_sample(step, micro);
  in_flight_.emplace_back(pass_context(first), next_micro_batch(first));
  y_ = in_flight_.back().forward(std::move(x_));
}

double TrainRun::backward(std::int64_t micro) {
  if (micro == micro_batches() - 1) data_.begin_last_backward();
  dx_ = in_flight_.front().backward(std::move(dy_));
  const double loss = in_flight_.front().loss();
  in_flight_.pop_front();
  rank_.progress.alive();
  return place_.tp == 0 ? gradient_scale() * loss : 0;
}

at::Tensor TrainRun::stage_input() const {
  const std::int64_t rows = job_.candidate.micro_batch * job_.problem.workload.seq;
  return at::empty({tensor_.local_rows(rows), job_.problem.model.hidden}, state_.weights.options);
}

void TrainRun::hand_over(const Handover& h) {
  const PhaseScope phase(h.receive_forward ? Phase::forward : Phase::backward);
  Neighbour before{.rank = place_.pp - 1, .out = {}, .in = {}};
  Neighbour after{.rank = place_.pp + 1, .out = {}, .in = {}};
  if (h.receive_forward) before.in = x_ = stage_input();
  if (h.receive_backward) after.in = dy_ = stage_input();
  if (h.send_backward) before.out = std::move(dx_);
  if (h.send_forward) after.out = std::move(y_);
  groups_.pipeline->exchange({before, after});
}

double TrainRun::step(int number) {
  state_.gradients.zero_();
  double loss = 0;
  for (const PipelineStep& each : steps_) {
    switch (each.kind) {
      case PipelineStep::Kind::forward:
        forward(number, each.micro_batch);
        break;
      case PipelineStep::Kind::backward:
        loss += backward(each.micro_batch);
        break;
      case PipelineStep::Kind::handover:
        hand_over(each.handover);
        break;
    }
  }
  {
    const PhaseScope phase(Phase::reduce);
    data_.finish_gradients();
  }
  if (dumps() && number == 0) dump_gradients(loss);
  const PhaseScope phase(Phase::optimizer);
  const SpendingScope spending(Spending::optimizer);
  const double unscale = 1 / loss_scale_.value();
  if (loss_scale_.accept(optimizer_.gradients(), rank_.collectives.all())) {
    optimizer_.step(unscale);
  }
  data_.gather_parameters();
  return loss;
}

void TrainRun::dump(const std::string& what, const at::Tensor& flat, bool sharded,
                    std::optional<double> first, double factor) {
  const at::Tensor whole = data_.whole(flat, sharded);
  if (place_.dp != 0) return;
  dump_flat(job_.dump + "." + std::to_string(number_) + "." + what, whole, state_.layout, first,
            factor);
}

void TrainRun::dump_gradients(double loss) {
  const at::Tensor mean = at::tensor({loss}, at::TensorOptions(at::kDouble).device(rank_.device));
  rank_.collectives.all().sum(mean);
  dump("gradients", state_.gradients, state_.sharding.gradients, mean.item<double>(),
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

/// Sums over ranks of this rank's shares.
std::vector<double> over_ranks(std::vector<double> shares, const Rank& rank) {
  const AccountScope account(Account::communication);
  const at::Tensor own =
      at::from_blob(shares.data(), static_cast<std::int64_t>(shares.size()), at::kDouble);
  const at::Tensor sums = own.to(rank.device);
  rank.collectives.all().sum(sums);
  own.copy_(sums);
  return shares;
}

TimeSplit share(TimeSplit time, double factor) {
  for (Seconds* part : {&time.compute, &time.recompute, &time.communication, &time.bubble,
                        &time.optimizer, &time.offload}) {
    *part = *part * factor;
  }
  return time;
}

/// This rank's shares of the steps' losses.
std::vector<double> take_steps(const probes::TrainJob& job, const Rank& rank, TrainRun& run,
                               probes::RankReport& report, RankMeasurement& measurement) {
  std::vector<double> shares;
  const int last = job.scope.warmup + job.scope.steps - 1;
  for (int number = 0; number < job.scope.warmup + job.scope.steps; ++number) {
    if (number == job.scope.warmup) {
      reset_memory_peaks();
      take_spent_time();
    }
    if (job.timeline && number == last) begin_timeline();
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
  if (rank.device.is_cpu()) {  // an accelerator works on while this thread goes on
    measurement.time = share(take_spent_time(), 1.0 / job.scope.steps);
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
  measurement.rank = job.scope.kind == ScopeKind::shadow ? job.scope.rank : rank.collectives.rank();
  const BudgetScope budget(job.memory_budget);
  std::optional<TrainRun> run;
  std::vector<double> shares;
  {
    const PeakNote note(measurement);
    forget_earlier_jobs();
    reset_memory_peaks();
    run.emplace(job, rank);
    measurement.loaded = live_memory();
    rank.progress.alive();
    shares = take_steps(job, rank, *run, report, measurement);
    measurement.step_end = live_memory();
    if (job.timeline) job_report.timeline = take_timeline();
  }
  job_report.losses = over_ranks(std::move(shares), rank);
  if (!job.dump.empty()) run->dump_weights();
}

}  // namespace planwright::worker
