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

/// One example of each reason.
std::vector<BrokenRule> dropped_examples(const RankingReport& report) {
  std::vector<BrokenRule> examples;
  for (const auto& [name, broken] : report.space.examples) examples.push_back(broken);
  if (!report.nearest_miss.empty()) {
    examples.push_back({"too_large", report.nearest_miss, "", ""});
  }
  return examples;
}

std::string rules_text(const RankingReport& report) {
  std::string text;
  for (const BrokenRule& broken : dropped_examples(report)) {
    text += fmt::format("  {}: {}\n", broken.name, reason_text(broken));
  }
  return text;
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
  const auto fits = static_cast<std::int64_t>(report.ranking.fits.size());
  std::string text = fmt::format("{}\n{}: {} fit", problem_text(problem),
                                 counted(report.space.counted, "candidate"), fits);
  const std::string dropped = counts_text(report.ranking.dropped);
  text += dropped.empty() ? "\n" : fmt::format("; dropped: {}\n", dropped);
  if (report.explain_dropped) text += rules_text(report);
  if (!report.top.empty()) text += "\n" + plans_table(problem, report, paint);
  return text;
}

Json ranking_json(const Problem& problem, const RankingReport& report) {
  Json plans = Json::array();
  for (std::size_t i = 0; i < report.top.size(); ++i) {
    Json plan{{"rank", i + 1}};
    plan.update(estimate_json(problem, report.space.legal[report.ranking.fits[i]], report.top[i]));
    plans.push_back(std::move(plan));
  }
  Json json{{"counted", report.space.counted},
            {"feasible", report.ranking.fits.size()},
            {"dropped", report.ranking.dropped}};
  if (report.explain_dropped) json["rules"] = rules_json(report);
  json["reason"] = report.infeasible;
  json["plans"] = std::move(plans);
  return json;
}

}  // namespace planwright::cli
