#include "cli/print_ranking.h"

#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "cli/print_estimate.h"
#include "cli/print_table.h"

namespace planwright::cli {
namespace {

Bytes judged_peak(const Estimate& estimate) {
  const StageEstimate& peak = estimate.peak();
  return peak.device_used.value_or(peak.accounts.allocated());
}

std::string plans_table(const Problem& problem, const RankingReport& report, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (std::size_t i = 0; i < report.top.size(); ++i) {
    const Estimate& estimate = report.top[i];
    rows.push_back({std::to_string(i + 1), rate_text(estimate.tokens_per_second_per_device),
                    ms_text(estimate.step_time), gib_text(judged_peak(estimate)),
                    fmt::format("{:.2f}", estimate.fit_probability),
                    describe(report.space.legal[report.ranking.fits[i]])});
  }
  return table_text({{"rank", Align::right},
                     {std::string(rate_unit(problem)), Align::right},
                     {"step ms", Align::right},
                     {"peak GiB", Align::right},
                     {"p(fits)", Align::right},
                     {"plan", Align::left}},
                    rows, paint);
}

/// By how much of the first plan's speed the one at `place` is below it.
double slower(const search::Ranking& ranking, std::size_t place) {
  const auto time = [&](std::size_t at) { return ranking.figures[ranking.fits[at]].step_time; };
  return 1 - time(0).value / time(place).value;
}

/// What of the first plan has to be known before it is taken, and what the surer one costs.
std::string surer_text(const RankingReport& report) {
  const auto place = search::surer_plan(report.ranking);
  if (!place) return "";
  const auto& figures = report.ranking.figures;
  const std::size_t first = report.ranking.fits.front(), surer = report.ranking.fits[*place];
  return fmt::format(
      "rank 1 may not fit: its probability is {:.2f}; {}, rank {}, has {:.2f} and is {:.1f} % "
      "slower: {}\n",
      figures[first].fit_probability,
      figures[surer].fit_probability >= search::kSure ? "the fastest that is surer" : "the surest",
      *place + 1, figures[surer].fit_probability, 100 * slower(report.ranking, *place),
      describe(report.space.legal[surer]));
}

Json surer_json(const RankingReport& report) {
  const auto place = search::surer_plan(report.ranking);
  if (!place) return {};
  const std::size_t surer = report.ranking.fits[*place];
  return {{"rank", *place + 1},
          {"fit_probability", report.ranking.figures[surer].fit_probability},
          {"slower_rel", slower(report.ranking, *place)},
          {"candidate", full_json(report.space.legal[surer])}};
}

constexpr const char* kTooLarge = "too_large";

/// One example of each reason.
std::vector<BrokenRule> dropped_examples(const RankingReport& report) {
  std::vector<BrokenRule> examples;
  for (const auto& [name, broken] : report.space.examples) examples.push_back(broken);
  if (!report.nearest_miss.empty()) {
    examples.push_back({kTooLarge, report.nearest_miss, "", ""});
  }
  return examples;
}

/// What a reason's name means: in full what its example breaks, or that in short.
std::string meaning(const std::string& name, const RankingReport& report) {
  const auto example = report.space.examples.find(name);
  if (example != report.space.examples.end()) {
    return report.explain_dropped ? reason_text(example->second) : example->second.text;
  }
  if (name != kTooLarge) return "";
  return report.nearest_miss.empty() ? "more memory than a plan may fill" : report.nearest_miss;
}

/// A line for each reason, the most frequent first.
std::string dropped_text(const RankingReport& report, const Paint& paint) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, count] : most_first(report.ranking.dropped)) {
    rows.push_back({std::to_string(count), name, meaning(name, report)});
  }
  if (rows.empty()) return "";
  return table_text(
      {{"dropped", Align::right}, {"rule", Align::left}, {"for example", Align::left}}, rows,
      paint);
}

Json rules_json(const RankingReport& report) {
  Json rules = Json::array();
  for (const BrokenRule& broken : dropped_examples(report)) {
    rules.push_back({{"name", broken.name},
                     {"count", report.ranking.dropped.at(broken.name)},
                     {"text", broken.text},
                     {"fix", broken.fix},
                     {"source", broken.source}});
  }
  return rules;
}

}  // namespace

std::string ranking_text(const Problem& problem, const RankingReport& report, const Paint& paint) {
  std::string text =
      fmt::format("{}\n{}: {} fit\n", problem_text(problem),
                  counted(report.space.counted, "candidate"), report.ranking.fits.size());
  const std::string dropped = dropped_text(report, paint);
  if (!dropped.empty()) text += "\n" + dropped;
  if (!report.top.empty()) text += "\n" + plans_table(problem, report, paint);
  return text + surer_text(report);
}

Json ranking_json(const Problem& problem, const TargetTraits& traits, const RankingReport& report) {
  Json plans = Json::array();
  for (std::size_t i = 0; i < report.top.size(); ++i) {
    Json plan{{"rank", i + 1}};
    plan.update(
        estimate_json(problem, traits, report.space.legal[report.ranking.fits[i]], report.top[i]));
    plans.push_back(std::move(plan));
  }
  Json json{{"counted", report.space.counted},
            {"feasible", report.ranking.fits.size()},
            {"dropped", report.ranking.dropped}};
  if (report.explain_dropped) json["rules"] = rules_json(report);
  json["reason"] = report.infeasible;
  json["surer"] = surer_json(report);
  json["plans"] = std::move(plans);
  return json;
}

}  // namespace planwright::cli
