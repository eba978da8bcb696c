#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace planwright::launcher {

/// How a rank of a command ended, by its launcher's word.
struct RankExit {
  int rank = 0;
  int code = 0;  ///< -N: signal N ended it
  bool operator==(const RankExit&) const = default;
};

/// What torchrun reports at the end of a log: of each node the rank that it saw fail first, and
/// behind them the others that failed, among them those that it ended itself by SIGTERM. Empty if
/// there is no report.
std::vector<RankExit> reported_exits(std::string_view log);

/// "rank 1 was killed by signal 9".
std::string told(const RankExit& exit);

}  // namespace planwright::launcher
