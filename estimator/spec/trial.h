#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/estimate.h"
#include "estimator/spec/outcome.h"

namespace planwright {

/// What to measure next, and why it was chosen. Made by search/propose.
struct Proposal {
  Candidate candidate;
  ProbeScope scope;
  Estimate estimate;  ///< as priced when it was chosen
  std::string why;  ///< one clause for people: "highest expected improvement (+12 %, p(fit) 0.71)"
  double expected_improvement = 0;  ///< fraction of the best measured throughput
  bool operator==(const Proposal&) const = default;
};

/// One probe: what was asked, what was expected, what came. The unit that studies store.
struct Trial {
  std::int64_t number = -1;  ///< within its study, from 0; -1: not stored yet
  std::string problem_hash;
  Candidate candidate;
  ProbeScope scope;
  Estimate estimate;
  std::string why;
  Outcome outcome;
  double started_unix_s = 0;
  double finished_unix_s = 0;
  bool operator==(const Trial&) const = default;
};

/// The answer of a tuning run, with its evidence by trial number.
struct Plan {
  std::optional<Trial> winner;  ///< measured; absent when nothing could be
  std::vector<Trial> runners_up;
  std::map<std::string, std::int64_t> dropped;  ///< reason → candidates ruled out
  std::int64_t counted = 0;                     ///< candidates in the space
  int probes = 0;
  double seconds = 0;
  double gain_left = 0;  ///< expected gain of the best untried candidate, fraction of the winner
  std::optional<double> error_before, error_after;  ///< median |log(measured / predicted)| of time
  std::string stopped;                              ///< why the loop ended
  std::string host_failure{};  ///< what the host could not do, if that ended it
  bool operator==(const Plan&) const = default;
};

}  // namespace planwright
