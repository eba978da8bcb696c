#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

namespace planwright::testing {

/// What was seen of the processes of a run; times are CLOCK_MONOTONIC.
struct RanksSeen {
  std::optional<double> first_end_s;  ///< of a rank
  std::optional<double> last_end_s;   ///< of a rank, whatever it left running
  std::optional<double> all_gone_s;   ///< of the last process, the supervisor included
  std::int64_t supervisor_peak = 0;   ///< bytes of memory
};

/// An independent witness of a run's processes: a thread that looks at /proc every few
/// milliseconds. It knows them by a mark in their environment, which this object puts there.
class RankWatch {
 public:
  /// `look` is called at every turn, from the watch's thread, while ranks are there.
  explicit RankWatch(std::function<void()> look);
  ~RankWatch();
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  std::optional<pid_t> pid_of(int rank) const;  ///< while it lives
  std::optional<pid_t> supervisor() const;
  /// Inodes of the sockets that the ranks listen at now.
  std::set<std::string> listening() const;
  /// Waits until nothing runs any more, at most `timeout_s`.
  RanksSeen finish(double timeout_s);
  /// Command lines of what still runs.
  std::set<std::string> left() const;

 private:
  void watch();
  void turn();
  void note_start(pid_t pid);
  void note_ends();

  const std::string mark_;
  const std::function<void()> look_;
  const std::set<pid_t> older_;  ///< processes that were there before
  mutable std::mutex mutex_;
  std::set<pid_t> alive_;
  std::map<int, pid_t> ranks_;  ///< by rank, of those alive
  pid_t supervisor_ = 0;
  RanksSeen seen_;
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

/// Inodes of all sockets of this host that listen for TCP connections.
std::set<std::string> listening_sockets();

}  // namespace planwright::testing
