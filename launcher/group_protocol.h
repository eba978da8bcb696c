#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "estimator/spec/json.h"

/// What passes between the tuner and planwright-supervisor, as JSON lines: one GroupSpec, later
/// perhaps kStopCommand, on the supervisor's stdin; GroupEvents on its stdout.
namespace planwright::launcher {

struct RankCommand {
  std::vector<std::string> argv;                   ///< argv[0] is a path
  std::map<std::string, std::string> environment;  ///< added to the supervisor's own
  std::string log_path;                            ///< empty: only the tail is kept
  std::vector<int> cpus;                           ///< empty: not pinned
  /// A file without which no end is a good one: its peers wait in vain for a rank that has gone
  /// with exit code 0 and not left it. Empty: none.
  std::string must_leave{};
  bool operator==(const RankCommand&) const = default;
};

struct GroupSpec {
  std::vector<RankCommand> ranks;
  double peer_grace_s = 2;  ///< after the first failed rank, for the others to report
  double term_grace_s = 1;  ///< between SIGTERM and SIGKILL
  /// Removed by the supervisor if the tuner is gone; may be empty. The ranks have its name in
  /// their environment as kRunVariable, by which the tuner finds what they leave if it is the
  /// supervisor that is gone.
  std::string work_folder;
  bool operator==(const GroupSpec&) const = default;
};

constexpr const char* kRunVariable = "PLANWRIGHT_RUN";

/// Of each rank's output the supervisor keeps this much from the end, and in the log file at most
/// kLogHead from the beginning before it: a rank that prints without end fills no disk.
constexpr std::size_t kLogTail = 64 * 1024;
constexpr std::size_t kLogHead = 1024 * 1024;
/// What ends the line between the two, "\n[1234 bytes left out]\n".
constexpr std::string_view kLeftOut = " bytes left out]\n";

struct RankStarted {
  int rank = 0;
  int pid = 0;
  double monotonic_s = 0;  ///< just before the process was made
};
/// The program could not be executed.
struct RankNotStarted {
  int rank = 0;
  std::string reason;
};
struct RankProgress {
  int rank = 0;
  std::string text;
};
struct RankExited {
  int rank = 0;
  int code = 0;          ///< exit code, if signal is 0
  int signal = 0;        ///< the signal that ended it, or 0
  bool ordered = false;  ///< the supervisor had begun to end it before it ended
  std::string log_tail;  ///< valid UTF-8
};
/// The last event: every rank and all that descends from it is gone.
struct GroupEnded {
  int left = 0;       ///< processes that even SIGKILL did not end in time (uninterruptible sleep)
  bool lost = false;  ///< the supervisor itself ended without saying this
};
using GroupEvent = std::variant<RankStarted, RankNotStarted, RankProgress, RankExited, GroupEnded>;

constexpr const char* kStopCommand = "{\"command\":\"stop\"}\n";

Json to_json(const GroupSpec& spec);
GroupSpec group_spec_from_json(const Json& json);
Json to_json(const GroupEvent& event);
/// Throws a nlohmann exception or a WorldError if `json` is not an event.
GroupEvent group_event_from_json(const Json& json);

}  // namespace planwright::launcher
