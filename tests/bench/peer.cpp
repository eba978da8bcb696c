#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "estimator/models.h"
#include "estimator/spec/error.h"
#include "launcher/files.h"
#include "launcher/targets/builtin/traits.h"
#include "tests/support/built_programs.h"
#include "tests/support/fake_traits.h"
#include "tests/support/markdown.h"
#include "tests/support/timed_job.h"

/// What a step of the worker costs: first against the same step in PyTorch eager
/// (tests/peers/eager_gpt.py), in turns, over models, types and threads; then with its books of
/// memory against without. Fails if a step costs more than 1.05 of PyTorch's, if the books cost
/// more than 2 %, or if PyTorch finds other losses. `bench_peer [ROUNDS [THREADS...]]`.
///
/// With one thread seconds are CPU time, which others on the machine disturb least; with more they
/// are wall time.
namespace planwright::testing {
namespace {

constexpr double kAllowedOfPeer = 1.05;
constexpr double kAllowedOfBooks = 1.02;
constexpr int kRounds = 7;
constexpr int kSteps = 10;
constexpr int kStepsOfBooks = 40;

/// Of any step's loss, against PyTorch's. In bf16 the two round at different places.
double allowed_loss_difference(Precision precision) {
  return precision == Precision::fp32 ? 1e-5 : 2e-3;
}

struct Case {
  std::string model;
  Precision precision = Precision::fp32;
  int threads = 1;
};

std::vector<Case> cases(const std::vector<int>& thread_counts) {
  std::vector<Case> all;
  for (const int threads : thread_counts) {
    for (const char* model : {"tiny-gpt-kind", "tiny-llama-kind"}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16}) {
        all.push_back({model, precision, threads});
      }
    }
  }
  return all;
}

std::string name_of(const Case& each) {
  return fmt::format("{} {}, threads {}", each.model, word(each.precision), each.threads);
}

probes::TrainJob job_of(const Case& each, const ProbeScope& scope) {
  const TargetTraits& traits = targets::builtin::traits();
  Problem problem = fake_problem(estimator::find_model(each.model, "", ""), 1, each.precision);
  problem.target = traits.name;
  problem.target_version = traits.version;
  problem.cluster.threads_per_rank = each.threads;
  problem.workload.recipe = traits.recipe(each.precision).value();
  problem.workload.seq = 128;
  problem.workload.global_batch = 4;
  const Candidate candidate{.micro_batch = 2};
  return launcher::make_train_job(problem, candidate, scope, traits, 0);
}

ProbeScope scope_of(int steps) { return {.kind = ScopeKind::full, .warmup = 2, .steps = steps}; }

launcher::RunOptions variant(const std::string& name) {
  launcher::RunOptions options = built_programs(PLANWRIGHT_BIN_DIR);
  options.worker = launcher::program_folder() + "/" + name;
  return options;
}

/// One of those that are compared, and a value for each round.
struct Contender {
  launcher::RunOptions options;
  std::vector<double> steps_s;  ///< the rounds' median steps
  std::vector<double> losses;   ///< of the last round's steps
};

/// PyTorch, started as if it were a worker by a script in `folder`.
std::string peer_program(const std::string& folder) {
  const std::string python = PLANWRIGHT_PEERS_DIR "/bin/python";
  if (!std::filesystem::exists(python)) {
    throw WorldError("no PyTorch in " PLANWRIGHT_PEERS_DIR ": run `./dev setup`");
  }
  const std::string path = folder + "/eager-gpt";
  launcher::write_file(path, fmt::format("#!/bin/sh\nexec '{}' '{}' \"$@\"\n", python,
                                         PLANWRIGHT_SOURCE_DIR "/tests/peers/eager_gpt.py"));
  chmod(path.c_str(), 0755);
  return path;
}

/// The worker and its peer.
using Pair = std::array<Contender, 2>;

Pair contenders(const Case& each, const std::string& folder) {
  Pair pair;
  for (Contender& contender : pair) contender.options = built_programs(PLANWRIGHT_BIN_DIR);
  if (each.threads == 1) {
    pair[0].options = variant("worker_on_cpu_time");
    pair[1].options.environment["PEER_CLOCK"] = "cpu";
  }
  pair[1].options.worker = peer_program(folder);
  return pair;
}

void take_turns(const Case& each, int rounds, Pair& pair) {
  const auto job = job_of(each, scope_of(kSteps));
  for (int round = 0; round < rounds; ++round) {
    for (const int turn : {round % 2, 1 - round % 2}) {
      Contender& contender = pair.at(static_cast<std::size_t>(turn));
      const Measurement measured = measure(name_of(each), {job}, contender.options).front();
      contender.steps_s.push_back(measured.step_time_s);
      contender.losses = measured.losses;
    }
  }
}

double loss_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    worst = std::max(worst, std::abs(a[i] / b.at(i) - 1));
  }
  return worst;
}

std::string milliseconds(const std::vector<double>& steps_s) {
  return fmt::format("{:.1f}", 1e3 * spread(steps_s).median);
}

std::string text(const Spread& ratio) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", ratio.median, ratio.least, ratio.most);
}

/// Whether every row is as it should be.
bool compare_with_peer(int rounds, const std::vector<int>& thread_counts) {
  const launcher::WorkFolder folder("");
  MarkdownTable table({"model", "precision", "threads", "worker, ms", "PyTorch, ms",
                       "worker / PyTorch", "worst loss difference"});
  double worst = 0;
  bool same_losses = true;
  for (const Case& each : cases(thread_counts)) {
    Pair pair = contenders(each, folder.path());
    take_turns(each, rounds, pair);
    const Spread ratio = spread(ratios(pair[0].steps_s, pair[1].steps_s));
    const double loss = loss_difference(pair[0].losses, pair[1].losses);
    worst = std::max(worst, ratio.median);
    same_losses = same_losses && loss <= allowed_loss_difference(each.precision);
    table.add({each.model, std::string(word(each.precision)), std::to_string(each.threads),
               milliseconds(pair[0].steps_s), milliseconds(pair[1].steps_s), text(ratio),
               fmt::format("{:.1e}", loss)});
    fmt::print(stderr, "{}: {} of PyTorch's\n", name_of(each), text(ratio));
  }
  fmt::print("{}\n", table.text());
  fmt::print(
      "Medians of {} rounds in turns, in brackets the rounds' range; CPU time with one thread, "
      "wall "
      "time with more. A step costs at most {:.3f} of PyTorch eager's, {:.2f} is allowed. "
      "PyTorch's "
      "losses are {}.\n\n",
      rounds, worst, kAllowedOfPeer, same_losses ? "the same" : "others");
  return worst <= kAllowedOfPeer && same_losses;
}

/// Neighbouring steps of one process: the even ones keep books.
struct Neighbours {
  std::vector<double> with, without;
};

Neighbours neighbours(const std::vector<double>& steps_s) {
  Neighbours out;
  for (std::size_t i = 0; i + 1 < steps_s.size(); i += 2) {
    out.with.push_back(steps_s[i]);
    out.without.push_back(steps_s[i + 1]);
  }
  return out;
}

bool compare_with_no_books(int rounds) {
  MarkdownTable table(
      {"model", "precision", "with books, ms", "without, ms", "with books / without"});
  double worst = 0;
  for (const Case& each : cases({1})) {
    const auto job = job_of(each, scope_of(kStepsOfBooks));
    Neighbours medians;
    std::vector<double> of_rounds;
    for (int round = 0; round < rounds; ++round) {
      const auto measured = measure(name_of(each), {job}, variant("worker_books_in_turns"));
      const Neighbours pairs = neighbours(measured.front().steps_s);
      medians.with.push_back(spread(pairs.with).median);
      medians.without.push_back(spread(pairs.without).median);
      of_rounds.push_back(spread(ratios(pairs.with, pairs.without)).median);
    }
    const Spread ratio = spread(of_rounds);
    worst = std::max(worst, ratio.median);
    table.add({each.model, std::string(word(each.precision)), milliseconds(medians.with),
               milliseconds(medians.without), text(ratio)});
    fmt::print(stderr, "{}: {} of no books\n", name_of(each), text(ratio));
  }
  fmt::print("{}\n", table.text());
  fmt::print(
      "Neighbouring steps of one process on one thread, which allocate from the worker's booked "
      "allocator and from libtorch's own in turns; {} rounds of {} pairs. The books cost at most "
      "{:.1f} %, {:.0f} % are allowed.\n",
      rounds, kStepsOfBooks / 2, 100 * (worst - 1), 100 * (kAllowedOfBooks - 1));
  return worst <= kAllowedOfBooks;
}

int run(int rounds, const std::vector<int>& thread_counts) {
  const bool as_fast = compare_with_peer(rounds, thread_counts);
  const bool cheap = compare_with_no_books(rounds);
  return as_fast && cheap ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main(int argc, char** argv) {
  try {
    const int rounds = argc > 1 ? std::atoi(argv[1]) : planwright::testing::kRounds;
    std::vector<int> thread_counts;
    for (int i = 2; i < argc; ++i) thread_counts.push_back(std::atoi(argv[i]));
    if (thread_counts.empty()) thread_counts = {1, 2};
    return planwright::testing::run(rounds, thread_counts);
  } catch (const std::exception& error) {
    fmt::print(stderr, "peer: {}\n", error.what());
    return 1;
  }
}
