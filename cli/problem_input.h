#pragma once

#include <memory>
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
  std::shared_ptr<const launcher::Target> target;
  launcher::UserCommand user{};           ///< the user's own script or command
  bool devices_here = false;              ///< in this host, so that a probe can run
  Setting devices_from{};                 ///< what named them
  std::vector<std::string> links_from{};  ///< one for each of the cluster's links
  std::string host_from{};                ///< where a node's memory is from, if not the user's
  std::vector<std::string> assumed{};     ///< what a name was taken for
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
/// The same of [candidate], for a model that no name and no file gives.
OneCandidate read_one_candidate(const Settings& settings, const ModelSpec& model);

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
launcher::RunOptions read_run_options(const Settings& settings, const launcher::Target& target);

/// An InputError unless the problem's devices are here.
void require_devices_here(const ProblemInput& input);

/// Whether planwright's own worker for the problem's devices is built.
bool worker_is_there(const ProblemInput& input, const launcher::RunOptions& options);

/// A WorldError unless the worker is there, if it is what measures; an InputError if the target
/// needs the user's own script and there is none.
void require_runner(const ProblemInput& input, const launcher::RunOptions& options);

}  // namespace planwright::cli
