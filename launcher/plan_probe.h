#pragma once

#include <cstdint>
#include <vector>

#include "launcher/command_probe.h"
#include "launcher/target.h"

/// How a plan of any target is measured: by planwright's own worker, or by the target's launch
/// configuration, cut to a few steps.
namespace planwright::launcher {

struct PlanJob {
  const Target& target;
  const Problem& problem;
  Candidate candidate;
  ProbeScope scope;
  const UserCommand& user;
  std::uint64_t seed = 0;
};

/// Why a measurement that is taken for a good one is odd, in Outcome::environment.
constexpr const char* kOddity = "oddity";

/// Runs plans of one target whose times are to be compared, in turns (in_turns) where there are
/// several. Never throws for a plan that fails, only Interrupted. Nothing of it is left behind.
std::vector<Outcome> measure_plans(const std::vector<PlanJob>& jobs, int rounds,
                                   const RunOptions& options);

}  // namespace planwright::launcher
