#include "launcher/run_watch.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "estimator/spec/error.h"
#include "launcher/clock.h"

namespace planwright::launcher {
namespace {

/// How long an interruption may go unnoticed.
constexpr double kPoll_s = 0.1;
/// A turn of the loop that took this long was not spent waiting for events.
constexpr double kAbsence_s = 1;
/// Twice what the supervisor needs to end everything: SIGTERM 1 s, SIGKILL 2 s, reaping 2 s.
constexpr double kStopTakes_s = 10;

struct LiveRank {
  int pid = 0;
  double last_sign_s = 0;
};

/// A stopped or traced process shows T or t as its state.
bool is_stopped(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t bracket = text.rfind(") ");
  const char state =
      bracket != std::string::npos && bracket + 2 < text.size() ? text[bracket + 2] : '?';
  return state == 'T' || state == 't';
}

class Watch {
 public:
  Watch(ProcessGroup& group, const RunOptions& options, const std::function<bool()>& sign_of_life)
      : group_(group),
        options_(options),
        sign_of_life_(sign_of_life),
        begin_s_(monotonic_s()),
        last_turn_s_(begin_s_) {}

  WatchedRun run() {
    while (!group_.ended()) {
      if (options_.interrupted && options_.interrupted()) throw Interrupted();
      forgive_own_absence();
      if (const auto event = group_.next(kPoll_s)) {
        std::visit([this](const auto& each) { take(each); }, *event);
      }
      if (sign_of_life_ && sign_of_life_()) note_sign_of_all();
      check_limits();
    }
    return std::move(result_);
  }

 private:
  /// A tuner that was itself stopped for a while blames no rank for its silence.
  void forgive_own_absence() {
    const double now = monotonic_s();
    const double absent = now - std::exchange(last_turn_s_, now);
    if (absent < kAbsence_s) return;
    for (auto& [rank, live] : live_) live.last_sign_s = std::min(now, live.last_sign_s + absent);
  }

  void note_sign_of_all() {
    for (auto& [rank, live] : live_) live.last_sign_s = monotonic_s();
  }

  void take(const RankStarted& event) {
    result_.started_s[event.rank] = event.monotonic_s;
    live_[event.rank] = {event.pid, monotonic_s()};
  }

  void take(const RankNotStarted& event) {
    RankFate fate;
    fate.rank = event.rank;
    fate.not_started = event.reason;
    result_.end.ranks.push_back(std::move(fate));
  }

  void take(const RankProgress& event) {
    const double now = monotonic_s();
    if (const auto rank = live_.find(event.rank); rank != live_.end()) {
      rank->second.last_sign_s = now;
    }
    if (options_.progress) options_.progress({event.rank, event.text, now - begin_s_});
  }

  void take(const RankExited& event) {
    live_.erase(event.rank);
    RankFate fate;
    fate.rank = event.rank;
    fate.code = event.code;
    fate.signal = event.signal;
    fate.ordered = event.ordered;
    fate.log_tail = event.log_tail;
    result_.end.ranks.push_back(std::move(fate));
  }

  void take(const GroupEnded& event) { result_.end.supervisor_lost = event.lost; }

  void check_limits() {
    const double now = monotonic_s();
    if (result_.end.stopped_by != StoppedBy::nobody) {
      // The supervisor has had its time and more: whatever it is, it does not do its work.
      if (now - stopped_s_ > kStopTakes_s) throw WorldError("the supervisor does not answer");
    } else if (now - oldest_sign_s() > options_.watchdog_s) {
      stop(StoppedBy::watchdog, options_.watchdog_s);
    } else if (now - begin_s_ > options_.deadline_s) {
      stop(StoppedBy::deadline, options_.deadline_s);
    }
  }

  double oldest_sign_s() const {
    double oldest = std::numeric_limits<double>::infinity();
    for (const auto& [rank, live] : live_) oldest = std::min(oldest, live.last_sign_s);
    return oldest;
  }

  /// The rank that is stopped, if one is: its peers fall silent soon after it, waiting.
  int most_silent() const {
    const auto worse = [](const auto& a, const auto& b) {
      const auto key = [](const LiveRank& rank) {
        return std::pair(!is_stopped(rank.pid), rank.last_sign_s);
      };
      return key(a.second) < key(b.second);
    };
    const auto found = std::min_element(live_.begin(), live_.end(), worse);
    return found == live_.end() ? 0 : found->first;
  }

  void stop(StoppedBy by, double limit_s) {
    stopped_s_ = monotonic_s();
    result_.end.stopped_by = by;
    result_.end.limit_s = limit_s;
    result_.end.silent_rank = most_silent();
    group_.stop();
  }

  ProcessGroup& group_;
  const RunOptions& options_;
  const std::function<bool()>& sign_of_life_;
  const double begin_s_;
  double last_turn_s_;
  double stopped_s_ = 0;
  std::map<int, LiveRank> live_;
  WatchedRun result_;
};

}  // namespace

WatchedRun watch(ProcessGroup& group, const RunOptions& options,
                 const std::function<bool()>& sign_of_life) {
  return Watch(group, options, sign_of_life).run();
}

}  // namespace planwright::launcher
