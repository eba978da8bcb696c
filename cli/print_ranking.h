#pragma once

#include <string>
#include <vector>

#include "cli/console.h"
#include "estimator/spec/problem.h"
#include "search/rank.h"
#include "search/space.h"

namespace planwright::cli {

/// What `plan` found, ready to be shown.
struct RankingReport {
  search::Space space;
  search::Ranking ranking;
  std::vector<Estimate> top;  ///< of the first of `ranking.fits`
  std::string infeasible;     ///< why there is none; empty if there is one
  std::string nearest_miss;   ///< what stands for the too large ones; empty if there is none
  bool explain_dropped = false;
};

std::string ranking_text(const Problem& problem, const RankingReport& report, const Paint& paint);

/// CLI.md's document of `plan`, without schema and seconds.
Json ranking_json(const Problem& problem, const TargetTraits& traits, const RankingReport& report);

}  // namespace planwright::cli
