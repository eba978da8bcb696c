#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "cli/problem_input.h"
#include "cli/settings.h"
#include "estimator/spec/error.h"
#include "estimator/spec/median.h"
#include "launcher/clock.h"
#include "launcher/probe_runner.h"
#include "tests/support/built_programs.h"
#include "tests/support/markdown.h"

/// How long one waits: from a rank's exec to the start of its first warm-up step, in a probe of the
/// demonstration's plan over two CPU ranks, which fails above 2 s; and for `planwright estimate`.
namespace planwright::testing {
namespace {

constexpr double kAllowed = 2.0;
constexpr int kRuns = 10;
constexpr const char* kDemo = PLANWRIGHT_SOURCE_DIR "/docs/demo/demo.toml";

/// The slower rank of one probe.
double probe_startup() {
  const auto one = cli::read_one_candidate(cli::read_toml_settings(kDemo));
  const ProbeScope scope{.kind = ScopeKind::full, .warmup = 1, .steps = 1};
  const auto job =
      launcher::make_train_job(one.input.problem, one.candidate, scope, one.input.traits(), 0);
  const Outcome outcome = launcher::run_probe(job, built_programs(PLANWRIGHT_BIN_DIR));
  const Measurement* const measured = outcome.measurement();
  if (measured == nullptr)
    throw WorldError("the probe ended: " + std::string(word(outcome.kind())));
  double slowest = 0;
  for (const RankMeasurement& rank : measured->ranks) {
    slowest = std::max(slowest, rank.startup_s.value());
  }
  return slowest;
}

/// From spawn to exit, its output thrown away.
double estimate_wall() {
  std::string program = PLANWRIGHT_BIN_DIR "/planwright", verb = "estimate", file = kDemo;
  char* argv[] = {program.data(), verb.data(), file.data(), nullptr};
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const double begin = launcher::monotonic_s();
  pid_t pid = -1;
  const int error = posix_spawn(&pid, argv[0], &quiet, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (error != 0) throw WorldError("cannot start " + program);
  int status = 0;
  waitpid(pid, &status, 0);
  if (status != 0) throw WorldError("`planwright estimate` failed");
  return launcher::monotonic_s() - begin;
}

template <class Action>
std::vector<double> repeated(const Action& action) {
  std::vector<double> seconds;
  for (int i = 0; i < kRuns; ++i) seconds.push_back(action());
  return seconds;
}

double largest(const std::vector<double>& seconds) {
  return *std::max_element(seconds.begin(), seconds.end());
}

int run() {
  const auto startup = repeated(probe_startup);
  const auto wall = repeated(estimate_wall);
  MarkdownTable table({"what", "runs", "median, s", "largest, s"});
  const auto add = [&](const std::string& what, const std::vector<double>& seconds) {
    table.add({what, std::to_string(seconds.size()), fmt::format("{:.3f}", median(seconds)),
               fmt::format("{:.3f}", largest(seconds))});
  };
  add("exec to the first warm-up step, 2 CPU ranks", startup);
  add("planwright estimate", wall);
  fmt::print("{}\nThe first step has begun after {:.2f} s at most; {:.0f} s are allowed.\n",
             table.text(), largest(startup), kAllowed);
  return largest(startup) <= kAllowed ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main() {
  try {
    return planwright::testing::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "startup: {}\n", error.what());
    return 1;
  }
}
