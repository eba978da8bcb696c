#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/problem_input.h"
#include "cli/settings.h"
#include "estimator/calibrate.h"
#include "estimator/price.h"
#include "estimator/spec/error.h"
#include "estimator/spec/median.h"
#include "launcher/host_rates.h"
#include "launcher/plan_probe.h"
#include "search/rank.h"
#include "search/tune.h"
#include "tests/support/built_programs.h"
#include "tests/support/markdown.h"

/// The tuner's winner against probing every legal candidate of the same space: `bench_exhaustive
/// [FILE.toml]`, by default the demonstration's. Fails if the winner, measured again in turns with
/// the truly best, is slower than 95 % of it, or if it took more than a third of the space to find.
namespace planwright::testing {
namespace {

constexpr double kLeastRatio = 0.95;
constexpr int kRepeats = 5;

/// What is tuned, and the programs that measure.
struct Setting {
  cli::ManyCandidates many;
  search::Budget budget;
  launcher::RunOptions options;
  search::Space space;
  std::vector<estimator::Quantities> quantities;
  Calibration prior;

  const Problem& problem() const { return many.input.problem; }
  const TargetTraits& traits() const { return many.input.traits(); }
};

HostRates measured_rates(const Problem& problem, const launcher::RunOptions& options) {
  const ClusterSpec& cluster = problem.cluster;
  return launcher::host_rates({.world = cluster.devices(),
                               .threads = cluster.threads_per_rank,
                               .device = cluster.device.kind,
                               .device_model = cluster.device.name},
                              options, {});
}

Setting read_setting(const std::string& path) {
  const cli::Settings settings = cli::read_toml_settings(path);
  Setting setting{.many = cli::read_many_candidates(settings),
                  .budget = cli::read_budget(settings),
                  .options = {},
                  .space = {},
                  .quantities = {},
                  .prior = {}};
  cli::require_devices_here(setting.many.input);
  setting.options = cli::read_run_options(settings, *setting.many.input.target);
  const launcher::RunOptions built = built_programs(PLANWRIGHT_BIN_DIR);
  setting.options.worker = built.worker;
  setting.options.supervisor = built.supervisor;
  setting.options.observer = built.observer;
  setting.space = search::enumerate(setting.problem(), setting.traits(), setting.many.space);
  setting.quantities = search::quantify(setting.problem(), setting.traits(), setting.space);
  setting.prior = estimator::prior_calibration(setting.problem(), setting.traits(),
                                               measured_rates(setting.problem(), setting.options));
  return setting;
}

std::string story(const Outcome& outcome) {
  std::string text(word(outcome.kind()));
  if (const Measurement* measured = outcome.measurement()) {
    text += fmt::format(", {:.0f} tokens/s/device", measured->tokens_per_second_per_device);
  }
  if (const Failure* failure = outcome.failure()) text += ": " + failure->detail;
  return text;
}

Outcome probe(const Setting& setting, const Candidate& candidate, const ProbeScope& scope) {
  const cli::ProblemInput& input = setting.many.input;
  const launcher::PlanJob job{*input.target, input.problem, candidate, scope, input.user};
  Outcome outcome = launcher::measure_plans({job}, 1, setting.options).front();
  fmt::print(stderr, "{}: {}\n", describe(candidate), story(outcome));
  return outcome;
}

struct Tuned {
  Plan plan;
  Calibration calibration;  ///< after the last probe
  std::vector<Candidate> probed;
};

/// The loop of `tune`, from an empty history, kept in memory.
Tuned tune(const Setting& setting) {
  Tuned tuned;
  tuned.calibration = setting.prior;
  search::TuneHooks hooks;
  hooks.probe = [&](const std::vector<Proposal>& proposals) {
    std::vector<Outcome> outcomes;
    for (const Proposal& proposal : proposals) {
      outcomes.push_back(probe(setting, proposal.candidate, proposal.scope));
    }
    return outcomes;
  };
  hooks.record = [&](Trial& trial) {
    trial.number = static_cast<std::int64_t>(tuned.probed.size());
    tuned.probed.push_back(trial.candidate);
  };
  hooks.on_refit = [&](const Calibration& calibration, const search::ModelError&) {
    tuned.calibration = calibration;
  };
  hooks.now = [] {
    using std::chrono::system_clock;
    return std::chrono::duration<double>(system_clock::now().time_since_epoch()).count();
  };
  fmt::print(stderr, "the tuner's probes:\n");
  tuned.plan = search::tune(setting.problem(), setting.traits(), setting.space, setting.prior, {},
                            hooks, setting.budget, 0);
  if (!tuned.plan.winner) throw WorldError("the tuner measured no plan: " + tuned.plan.stopped);
  return tuned;
}

/// How a memory verdict turned out, over all candidates.
struct Verdicts {
  int full = 0;         ///< ran out of memory for real
  int foreseen = 0;     ///< ... and the model had said so
  int false_alarm = 0;  ///< the model said so, and it fitted
};

Verdicts judge(const Setting& setting, const Calibration& calibration,
               const std::vector<Outcome>& outcomes) {
  const estimator::Pricer pricer(setting.problem(), setting.traits(), calibration);
  Verdicts verdicts;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const bool full = outcomes[i].out_of_memory() != nullptr;
    const bool said_so = !pricer.figures(setting.quantities[i]).fits;
    verdicts.full += full ? 1 : 0;
    verdicts.foreseen += full && said_so ? 1 : 0;
    verdicts.false_alarm += outcomes[i].measurement() && said_so ? 1 : 0;
  }
  return verdicts;
}

double speed(const Outcome& outcome) {
  const Measurement* const measured = outcome.measurement();
  return measured ? measured->tokens_per_second_per_device : 0;
}

std::string measured_peak(const Outcome& outcome) {
  if (const Measurement* measured = outcome.measurement()) {
    return fmt::format("{:.4f}", gib(measured->allocated_peak()));
  }
  if (const OutOfMemory* full = outcome.out_of_memory()) {
    return fmt::format("> {:.4f}", gib(full->allocated + full->requested));
  }
  return std::string(word(outcome.kind()));
}

std::string every_candidate(const Setting& setting, const Tuned& tuned,
                            const std::vector<Outcome>& outcomes) {
  const estimator::Pricer before(setting.problem(), setting.traits(), setting.prior);
  const estimator::Pricer after(setting.problem(), setting.traits(), tuned.calibration);
  const auto predicted = [&](const estimator::Pricer& pricer, std::size_t i) {
    return fmt::format("{:.4f}", gib(pricer.figures(setting.quantities[i]).allocated));
  };
  MarkdownTable table({"candidate", "peak by the prior, GiB", "after tuning", "measured",
                       "tokens/s/device", "the tuner's probes"});
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    const Candidate& candidate = setting.space.legal[i];
    table.add({describe(candidate), predicted(before, i), predicted(after, i),
               measured_peak(outcomes[i]),
               outcomes[i].measurement() ? fmt::format("{:.0f}", speed(outcomes[i])) : "-",
               std::to_string(std::count(tuned.probed.begin(), tuned.probed.end(), candidate))});
  }
  return table.text();
}

/// Speeds of two candidates that were measured in turns.
struct Contest {
  std::vector<double> tuned, best;
  double ratio() const { return median(tuned) / median(best); }
};

Contest contest(const Setting& setting, const Candidate& tuned, const Candidate& best) {
  fmt::print(stderr, "both winners in turns:\n");
  Contest contest;
  for (int i = 0; i < kRepeats; ++i) {
    contest.tuned.push_back(speed(probe(setting, tuned, setting.budget.scope)));
    contest.best.push_back(speed(probe(setting, best, setting.budget.scope)));
  }
  return contest;
}

std::string contest_text(const Contest& contest, const Candidate& tuned, const Candidate& best) {
  MarkdownTable table({"repeat", "tuned: " + describe(tuned), "best: " + describe(best)});
  const auto add = [&](const std::string& name, double a, double b) {
    table.add({name, fmt::format("{:.0f}", a), fmt::format("{:.0f}", b)});
  };
  for (std::size_t i = 0; i < contest.tuned.size(); ++i) {
    add(std::to_string(i + 1), contest.tuned[i], contest.best[i]);
  }
  add("median, tokens/s/device", median(contest.tuned), median(contest.best));
  return table.text();
}

void print_verdicts(const std::string& when, const Verdicts& verdicts) {
  fmt::print("- {}: the model had said so of {} of them, and wrongly of {} that fitted.\n", when,
             verdicts.foreseen, verdicts.false_alarm);
}

int run(const std::string& path) {
  const Setting setting = read_setting(path);
  const Tuned tuned = tune(setting);
  fmt::print(stderr, "every legal candidate:\n");
  std::vector<Outcome> outcomes;
  for (const Candidate& candidate : setting.space.legal) {
    outcomes.push_back(probe(setting, candidate, setting.budget.scope));
  }
  const auto fastest =
      std::max_element(outcomes.begin(), outcomes.end(),
                       [](const Outcome& a, const Outcome& b) { return speed(a) < speed(b); });
  const Candidate& best = setting.space.legal[static_cast<std::size_t>(fastest - outcomes.begin())];
  const Candidate& winner = tuned.plan.winner->candidate;
  const Contest result = contest(setting, winner, best);
  // Against itself a candidate shows the noise of this host, which is not the tuner's.
  const double ratio = winner == best ? 1.0 : result.ratio();
  const Verdicts before = judge(setting, setting.prior, outcomes);

  fmt::print("{}\n{}\n", every_candidate(setting, tuned, outcomes),
             contest_text(result, winner, best));
  const auto failed = std::count_if(outcomes.begin(), outcomes.end(),
                                    [](const Outcome& each) { return each.failure() != nullptr; });
  fmt::print("{} of {} legal candidates ran out of memory for real, {} failed otherwise.\n",
             before.full, outcomes.size(), failed);
  print_verdicts("Before the first probe", before);
  print_verdicts("After the last", judge(setting, tuned.calibration, outcomes));
  fmt::print(
      "\nThe tuner's winner reaches {:.1f} % of the best{} (at least {:.0f} % wanted), found with "
      "{} probes of {} candidates ({:.0f} %, at most a third wanted).\n",
      100 * ratio, winner == best ? ", which it is" : "", 100 * kLeastRatio, tuned.plan.probes,
      outcomes.size(), 100.0 * tuned.plan.probes / static_cast<double>(outcomes.size()));
  const bool frugal = 3 * tuned.plan.probes <= static_cast<int>(outcomes.size());
  return ratio >= kLeastRatio && frugal && failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace planwright::testing

int main(int argc, char** argv) {
  try {
    return planwright::testing::run(argc > 1 ? argv[1]
                                             : PLANWRIGHT_SOURCE_DIR "/docs/demo/demo.toml");
  } catch (const std::exception& error) {
    fmt::print(stderr, "exhaustive: {}\n", error.what());
    return 1;
  }
}
