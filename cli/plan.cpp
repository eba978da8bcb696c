#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/console.h"
#include "cli/infeasible.h"
#include "cli/other_targets.h"
#include "cli/print_links.h"
#include "cli/print_ranking.h"
#include "cli/prior.h"
#include "cli/problem_input.h"
#include "cli/saved_plan.h"
#include "cli/verbs.h"
#include "estimator/price.h"
#include "launcher/clock.h"

namespace planwright::cli {
namespace {

const Verb kVerb{
    .name = "plan",
    .summary = "Every candidate that fits, fastest first; nothing is started.",
    .arguments = "[FILE.toml]",
    .example =
        "planwright plan --model llama-2-7b --device A100-SXM4-80GB --devices 8 --seq 4096 "
        "--global-batch 64",
    .tables = {Table::model, Table::cluster, Table::job, Table::space},
    .axes = Table::space,
    .own = {"top", "explain-dropped", "save-plan"},
    .most_words = 1,
    .takes_file = true,
    .takes_command = true,
};

constexpr std::size_t kTop = 20;

std::size_t read_top(const Settings& settings) {
  const Setting* top = settings.find(Table::none, "top");
  return top == nullptr ? kTop : static_cast<std::size_t>(parse_count(*top, 1));
}

/// So many legal candidates take some seconds: a core prices about 7000 in one.
constexpr std::size_t kMany = 30'000;

void tell_of_many(const search::Space& space, const Console& console) {
  if (space.legal.size() < kMany) return;
  console.story(fmt::format(
      "{} candidates to be priced: fewer, and sooner, with an axis that is not free, as --cp 1",
      space.legal.size()));
}

/// All that any of the plans that are told moves away; where there is none, the nearest miss.
Offload offloaded(const RankingReport& report) {
  const search::Ranking& ranking = report.ranking;
  if (report.top.empty()) {
    return ranking.too_large.empty() ? Offload{}
                                     : report.space.legal[ranking.too_large.front()].offload;
  }
  Offload all;
  for (std::size_t i = 0; i < report.top.size(); ++i) {
    const Offload& each = report.space.legal[ranking.fits[i]].offload;
    all.optimizer |= each.optimizer;
    all.params |= each.params;
    all.activations |= each.activations;
    all.to = std::max(all.to, each.to);
  }
  return all;
}

RankingReport make_report(const ManyCandidates& many, const Calibration& prior, std::size_t top,
                          bool explain, const Console& console) {
  const Problem& problem = many.input.problem;
  const TargetTraits& traits = many.input.traits();
  RankingReport report;
  report.space = search::enumerate(problem, traits, many.space);
  tell_of_many(report.space, console);
  const estimator::Pricer pricer(problem, traits, prior);
  report.ranking =
      search::rank(report.space, search::price_all(problem, traits, report.space, pricer,
                                                   std::thread::hardware_concurrency()));
  const std::size_t shown = std::min(top, report.ranking.fits.size());
  for (std::size_t i = 0; i < shown; ++i) {
    report.top.push_back(pricer.estimate(report.space.legal[report.ranking.fits[i]]));
  }
  report.explain_dropped = explain;
  if (explain) {
    report.nearest_miss = nearest_miss_text(report.space, report.ranking, pricer);
  }
  report.infeasible = infeasible_text(report.space, report.ranking, pricer);
  return report;
}

}  // namespace

int run_plan(const Arguments& arguments) {
  const CommandLine line = read_command_line(kVerb, arguments);
  const Console console(line.common);
  if (line.help) return print_help(kVerb);

  const double began = launcher::monotonic_s();
  const std::size_t top = read_top(line.settings);
  const ManyCandidates many = read_many_candidates(line.settings);
  console.warnings(many.input.warnings);
  const Setting* file = line.settings.find(Table::none, "save-plan");
  if (file != nullptr) require_savable(*file, many.input.problem);
  const Calibration prior = read_prior(many.input, line.settings, Benchmark::if_known, console);
  const bool explain = line.settings.marked(Table::none, "explain-dropped");
  RankingReport report = make_report(many, prior, top, explain, console);
  if (report.space.legal.empty()) {
    report.infeasible = with_other_targets(report.infeasible, line.settings, accepts_space);
  }

  console.print(ranking_text(many.input.problem, report, console.result_paint()));
  const auto assumed = assumptions(many.input, offloaded(report));
  console.print(assumed_text(assumed) + links_text(many.input));
  Json json{{"schema", "planwright.plan/1"}};
  json.update(ranking_json(many.input.problem, many.input.traits(), report));
  json["assumed"] = assumed;
  json["links"] = links_json(many.input);
  json["seconds"] = launcher::monotonic_s() - began;
  console.print_json(json);
  if (report.infeasible.empty()) {
    const std::size_t best = report.ranking.fits.front();
    if (file != nullptr) save_plan(*file, many.input.problem, report.space.legal[best], console);
    return kExitDone;
  }
  console.failure(report.infeasible);
  return kExitNothingFeasible;
}

}  // namespace planwright::cli
