#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/outcome.h"
#include "estimator/spec/words.h"
#include "launcher/probe_runner.h"

/// A training script that is not ours, cut to a few steps and measured: started like the worker's
/// ranks, with the same time-outs, classification and cleanup, and watched from inside by the
/// observer.
namespace planwright::launcher {

/// Whose figures a measurement is made of, the best first.
enum class Witness {
  report,    ///< what the script writes to the path in PLANWRIGHT_REPORT
  observer,  ///< launcher/observer, in every process that imports torch
};

struct CommandJob {
  std::vector<std::string> argv;  ///< argv[0] is looked for in PATH
  std::map<std::string, std::string> environment;
  int ranks = 1;            ///< that train
  ProbeScope scope;         ///< full
  std::int64_t tokens = 0;  ///< of one optimizer step of all ranks; 0: not known
  bool observe = true;
  std::optional<Bytes> budget{};  ///< of each rank's tensors on a CPU, which the observer enforces
  std::string observer;           ///< its folder; empty: the one beside the running program
};

struct CommandOutcome {
  Outcome outcome;
  std::optional<Witness> witness;     ///< of a measurement
  std::vector<std::string> warnings;  ///< what is odd about a run that is taken for a good one
};

/// Runs it and says how it ended. Never throws for a script that fails, only Interrupted. Nothing
/// of it is left behind.
CommandOutcome run_command(const CommandJob& job, const RunOptions& options);

}  // namespace planwright::launcher

namespace planwright {
template <>
struct Words<launcher::Witness> {
  static constexpr std::array<std::string_view, 2> kWords{"report", "observer"};
};
}  // namespace planwright
