#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "estimator/spec/error.h"
#include "launcher/files.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/built_programs.h"
#include "tests/support/ledger_cells.h"
#include "tests/support/markdown.h"
#include "tests/support/training_dump.h"

/// The equality table: what every data-parallel layout computes against the single process, in
/// fp64: loss and gradients of the first step, weights after ten steps of SGD. Fails above 1e-10 of
/// a tensor's largest value.
namespace planwright::testing {
namespace {

constexpr double kAllowed = 1e-10;
constexpr std::int64_t kGlobalBatch = 12;
constexpr std::int64_t kSeq = 24;
constexpr int kSteps = 10;

/// One training run. `cell` has the layout, `micro_batch` how the batch is split.
struct Run {
  LedgerCell cell;
  int micro_batch = 1;
  std::string dump;
};

/// Shapes with grouped heads, odd sizes, tied and untied heads, buckets with padding.
std::vector<std::size_t> shapes() {
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < ledger_shapes().size(); ++i) {
    const std::string& name = ledger_shapes()[i].name;
    if (name == "grouped heads" || name == "odd sizes") chosen.push_back(i);
  }
  return chosen;
}

Problem problem_of(const LedgerCell& cell) {
  Problem problem = ledger_problem(cell);
  problem.workload.optimizer = OptimizerKind::sgd;
  problem.workload.seq = kSeq;
  problem.workload.global_batch = kGlobalBatch;
  return problem;
}

/// The whole batch of a rank at once comes last: with one rank, it is what all are compared with.
std::vector<int> splits(int dp) { return {1, 2, static_cast<int>(kGlobalBatch) / dp}; }

std::vector<Run> runs_of(int dp, const std::string& folder) {
  std::vector<Run> runs;
  for (const BlockKind kind : {BlockKind::gpt, BlockKind::llama}) {
    for (const int zero : {0, 1}) {
      for (const int micro_batch : splits(dp)) {
        for (const RecomputeKind recompute : {RecomputeKind::none, RecomputeKind::full}) {
          for (const std::size_t shape : shapes()) {
            const LedgerCell cell{kind, Precision::fp64, dp, zero, recompute, shape};
            runs.push_back({cell, micro_batch, fmt::format("{}/{}-{}", folder, dp, runs.size())});
          }
        }
      }
    }
  }
  return runs;
}

probes::TrainJob job_of(const Run& run) {
  Candidate candidate = ledger_candidate(run.cell);
  candidate.micro_batch = run.micro_batch;
  const ProbeScope scope{.kind = ScopeKind::full, .warmup = 0, .steps = kSteps};
  auto job = launcher::make_train_job(problem_of(run.cell), candidate, scope,
                                      targets::builtin::traits(), 0);
  job.dump = run.dump;
  return job;
}

void train(const std::vector<Run>& runs) {
  std::vector<probes::TrainJob> jobs;
  for (const Run& run : runs) jobs.push_back(job_of(run));
  const auto ran = launcher::run_jobs(jobs, built_programs(PLANWRIGHT_BIN_DIR));
  if (!ran.failure) return;
  const Failure* const failure = ran.failure->failure();
  throw WorldError(failure ? failure->detail + "\n" + failure->log_tail : "out of memory");
}

struct Worst {
  int runs = 0;
  double loss = 0;
  TensorDifference gradient, weight;

  double largest() const { return std::max({loss, gradient.relative, weight.relative}); }
};

void keep_larger(TensorDifference& worst, const std::vector<TensorDifference>& differences) {
  for (const TensorDifference& each : differences) {
    if (each.relative >= worst.relative) worst = each;
  }
}

void compare(const TrainingDump& actual, const TrainingDump& expected, const ModelSpec& model,
             Worst& worst) {
  ++worst.runs;
  worst.loss = std::max(worst.loss, std::abs(actual.loss / expected.loss - 1));
  keep_larger(worst.gradient, tensor_differences(model, actual.gradients, expected.gradients));
  keep_larger(worst.weight, tensor_differences(model, actual.weights, expected.weights));
}

/// What a row of the table has in common.
struct Layout {
  BlockKind kind;
  int dp, zero, micro_batch;
  auto operator<=>(const Layout&) const = default;
};

using Dumps = std::map<std::pair<BlockKind, std::size_t>, TrainingDump>;

bool is_reference(const Run& run) {
  return run.cell.dp == 1 && run.cell.zero == 0 && run.micro_batch == kGlobalBatch &&
         run.cell.recompute == RecomputeKind::none;
}

std::map<Layout, Worst> compare_all(const std::string& folder) {
  std::map<Layout, Worst> rows;
  Dumps references;
  for (const int dp : {1, 2, 3}) {
    const auto runs = runs_of(dp, folder);
    train(runs);
    const auto read = [](const Run& run) {
      return read_training_dump(run.dump, problem_of(run.cell).model);
    };
    for (const Run& run : runs) {
      if (is_reference(run)) references[{run.cell.kind, run.cell.shape}] = read(run);
    }
    for (const Run& run : runs) {
      if (is_reference(run)) continue;
      const LedgerCell& cell = run.cell;
      compare(read(run), references.at({cell.kind, cell.shape}), problem_of(cell).model,
              rows[{cell.kind, cell.dp, cell.zero, run.micro_batch}]);
    }
  }
  return rows;
}

std::string difference_text(const TensorDifference& worst) {
  if (worst.relative == 0) return "0";
  return fmt::format("{:.1e} ({})", worst.relative, worst.tensor);
}

int run() {
  const launcher::WorkFolder folder("");
  const auto rows = compare_all(folder.path());
  MarkdownTable table({"blocks", "dp", "zero", "micro-batch", "accumulation", "runs", "loss",
                       "worst gradient", "worst weight after ten steps"});
  Worst total;
  for (const auto& [layout, worst] : rows) {
    table.add({std::string(word(layout.kind)), std::to_string(layout.dp),
               std::to_string(layout.zero), std::to_string(layout.micro_batch),
               std::to_string(kGlobalBatch / (layout.dp * layout.micro_batch)),
               std::to_string(worst.runs), fmt::format("{:.1e}", worst.loss),
               difference_text(worst.gradient), difference_text(worst.weight)});
    total.runs += worst.runs;
    total.loss = std::max(total.loss, worst.loss);
    keep_larger(total.gradient, {worst.gradient});
    keep_larger(total.weight, {worst.weight});
  }
  fmt::print("{}\n", table.text());
  fmt::print(
      "{} runs against one process with the whole batch at once, recomputation on and off, {} "
      "shapes: worst loss {:.1e}, gradient {:.1e}, weight after ten SGD steps {:.1e}; {:.0e} is "
      "allowed.\n",
      total.runs, shapes().size(), total.loss, total.gradient.relative, total.weight.relative,
      kAllowed);
  return total.largest() <= kAllowed ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main() {
  try {
    return planwright::testing::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "equality: {}\n", error.what());
    return 1;
  }
}
