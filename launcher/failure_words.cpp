#include "launcher/failure_words.h"

#include <fmt/core.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <vector>

#include "launcher/logs/log_reader.h"
#include "launcher/own_words.h"
#include "launcher/reported_exits.h"

namespace planwright::launcher {
namespace {

std::string said_by(int rank, const std::string& words) {
  return fmt::format("rank {}: {}", rank, words);
}

bool is_of_a_peer(const std::string& error) {
  LogReader reader({});
  reader.append(error + "\n");
  const auto cause = cause_in_log(reader.finish());
  return cause && cause->failure.consequence;
}

/// Why a rank of a command failed, where no exception of its own says so.
class Blame {
 public:
  Blame(const CommandEnd& end, const std::optional<LoggedCause>& cause)
      : end_(end),
        cause_(cause),
        log_(fate_of_command(end)->log_tail),
        exits_(reported_exits(log_)),
        left_(left_ranks()) {}

  std::string words() const {
    const bool of_script = cause_ && is_of_script(cause_->failure);
    if (of_script && !cause_->failure.consequence) return told(*cause_);
    const RankExit* exit = unexplained_exit();
    if (exit != nullptr && exit->code < 0) return told(*exit);
    if (of_script || !left_.empty()) return words_of_a_peers_end(exit);
    std::string words = own_words(log_);
    if (!words.empty()) return words;
    if (exit != nullptr) return told(*exit);
    return cause_ ? told(*cause_) : last_line(log_);
  }

 private:
  bool is_of_script(const LoggedFailure& failure) const {
    return !is_of_report(failure.line, log_);
  }

  /// Those that a peer left, with what they say about it.
  std::map<int, std::string> left_ranks() const {
    std::map<int, std::string> left;
    for (const auto& [rank, failure] : end_.log.failures) {
      if (rank && failure.consequence && is_of_script(failure)) left[*rank] = failure.line;
    }
    for (const ObservedProcess& process : end_.observed) {
      if (is_of_a_peer(process.error)) left[process.rank] = process.error;
    }
    return left;
  }

  /// torchrun ends by SIGTERM whom it did not see fail first.
  const RankExit* unexplained_exit() const {
    for (const RankExit& exit : exits_) {
      const bool told_to_end = exit.code == -SIGTERM && &exit != &exits_.front();
      if (!told_to_end && !left_.contains(exit.rank)) return &exit;
    }
    return nullptr;
  }

  /// A rank that the report does not list, and that raised nothing: of several the one that came
  /// least far.
  const ObservedProcess* silent_rank() const {
    const ObservedProcess* silent = nullptr;
    for (const ObservedProcess& process : end_.observed) {
      const bool listed = std::any_of(exits_.begin(), exits_.end(), [&](const RankExit& exit) {
        return exit.rank == process.rank;
      });
      if (exits_.empty() || listed || !process.error.empty()) continue;
      if (silent == nullptr || process.steps.size() < silent->steps.size()) silent = &process;
    }
    return silent;
  }

  std::string words_of_a_peers_end(const RankExit* exit) const {
    if (exit != nullptr) return told(*exit) + printed_before();
    std::string peers = cause_ && is_of_script(cause_->failure)
                            ? told(*cause_)
                            : said_by(left_.begin()->first, left_.begin()->second);
    const ObservedProcess* silent = silent_rank();
    if (silent == nullptr) return peers;
    return fmt::format("rank {} ended before its peers, without an error; {}", silent->rank, peers);
  }

  /// What a script that exits by itself says is before what its peers say of that.
  std::string printed_before() const {
    const std::size_t at = cause_ ? log_.find(cause_->failure.line) : log_.npos;
    const std::string words = at == log_.npos ? "" : own_words(log_.substr(0, at));
    return words.empty() ? "" : fmt::format("; printed before its peers failed: \"{}\"", words);
  }

  const CommandEnd& end_;
  const std::optional<LoggedCause>& cause_;
  const std::string& log_;
  const std::vector<RankExit> exits_;
  const std::map<int, std::string> left_;
};

}  // namespace

std::string own_error(const CommandEnd& end) {
  const ObservedProcess* first = nullptr;
  for (const ObservedProcess& process : end.observed) {
    if (process.error.empty() || is_of_a_peer(process.error)) continue;
    if (first == nullptr || process.ended_unix_s < first->ended_unix_s) first = &process;
  }
  return first == nullptr ? "" : said_by(first->rank, first->error);
}

std::string failure_words(const CommandEnd& end, const std::optional<LoggedCause>& cause) {
  std::string error = own_error(end);
  return error.empty() ? Blame(end, cause).words() : error;
}

std::string told(const LoggedCause& cause) {
  return cause.rank ? said_by(*cause.rank, cause.failure.line) : cause.failure.line;
}

}  // namespace planwright::launcher
