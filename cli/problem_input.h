#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/settings.h"
#include "estimator/spec/candidate.h"
#include "estimator/spec/problem.h"
#include "launcher/plan_file.h"
#include "launcher/probe_runner.h"
#include "launcher/target.h"
#include "search/space.h"
#include "search/stop.h"

namespace planwright::cli {

/// What a verb works on.
struct ProblemInput {
  Problem problem;
  const launcher::Target* target = nullptr;
  bool devices_here = false;  ///< in this host, so that a probe can run
  Setting devices_from{};     ///< what named them
  std::vector<std::string> warnings;

  const TargetTraits& traits() const { return target->traits; }
};

/// For estimate and probe: one candidate, from [candidate] or from a plan file. A plan file brings
/// its own problem, unless a model is given, which then needs all of it given.
struct OneCandidate {
  ProblemInput input;
  Candidate candidate;
  std::string place{};  ///< "FILE: candidate: " of a plan file, for messages; else empty
};
OneCandidate read_one_candidate(const Settings& settings);

/// For plan and tune: many, from [space], and how long to look.
struct ManyCandidates {
  ProblemInput input;
  search::SpaceRequest space;
  search::Budget budget;
};
ManyCandidates read_many_candidates(const Settings& settings);

/// [budget].
search::Budget read_budget(const Settings& settings);
ProbeScope read_scope(const Settings& settings);

/// [launch], with the signals polled.
launcher::RunOptions read_run_options(const Settings& settings);

/// An InputError unless the problem's devices are here.
void require_devices_here(const ProblemInput& input);

/// A WorldError unless the program that would measure is there.
void require_worker(const ProblemInput& input, const launcher::RunOptions& options);

}  // namespace planwright::cli
