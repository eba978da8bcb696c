#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/outcome.h"
#include "estimator/spec/words.h"
#include "launcher/logs/log_format.h"
#include "launcher/probe_runner.h"

/// A training script that is not ours, cut to a few steps and measured: started like the worker's
/// ranks, with the same time-outs, classification and cleanup, and watched from inside by the
/// observer, and from outside by what it prints.
namespace planwright::launcher {

/// Whose figures a measurement is made of, the best first.
enum class Witness {
  report,    ///< what the script writes to the path in PLANWRIGHT_REPORT
  observer,  ///< launcher/observer, in every process that imports torch
  log,       ///< what the script prints
};

/// The outcome's environment says under this key who the witness of a measurement is, as a word.
constexpr const char* kWitness = "witness";

struct CommandJob {
  std::vector<std::string> argv;                   ///< argv[0] is looked for in PATH
  std::map<std::string, std::string> environment;  ///< with PYTHONUNBUFFERED, if not given
  int ranks = 1;                                   ///< that train
  ProbeScope scope;                                ///< full
  std::int64_t tokens = 0;   ///< of one optimizer step of all ranks; 0: not known
  std::int64_t samples = 0;  ///< the same; of a log that states samples per second
  bool observe = true;
  std::optional<Bytes> budget{};  ///< of each rank's tensors on a CPU, which the observer enforces
  std::string folder;             ///< that its files are in, and that goes with it if this process
                                  ///< is killed; empty: none
  std::string observer;           ///< its folder; empty: the one beside the running program
  std::vector<LogFormat> log_formats;  ///< of what it prints, the earlier first; empty: generic
};

struct CommandOutcome {
  Outcome outcome;
  std::optional<Witness> witness;     ///< of a measurement
  std::vector<std::string> warnings;  ///< what is odd about a run that is taken for a good one
};

/// Runs it and says how it ended. Never throws for a script that fails, only Interrupted, or,
/// before anything is started, an InputError for a log format that is none. Nothing of it is left
/// behind.
CommandOutcome run_command(const CommandJob& job, const RunOptions& options);

}  // namespace planwright::launcher

namespace planwright {
template <>
struct Words<launcher::Witness> {
  static constexpr std::array<std::string_view, 3> kWords{"report", "observer", "log"};
};
}  // namespace planwright
