#include "launcher/reported_exits.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "launcher/command_end.h"

namespace planwright::launcher {
namespace {

// Source: pytorch/pytorch torch/distributed/elastic/multiprocessing/errors/__init__.py and
// .../multiprocessing/api.py @ 2.0 to 2.11.
constexpr std::string_view kFirst = "Root Cause (first observed failure):";
constexpr std::string_view kOthers = "Failures:";
constexpr std::string_view kRank = "  rank      : ";
constexpr std::string_view kCode = "  exitcode  : ";
/// The one line of a report that was cut off, or of an older torchrun; its rank is the node's.
constexpr std::string_view kNotice = "failed (exitcode: ";
constexpr std::string_view kNoticeRank = ") local_rank: ";

std::optional<int> number_behind(std::string_view line, std::string_view key) {
  const std::size_t at = line.find(key);
  if (at == line.npos) return std::nullopt;
  int number = 0;
  const auto read =
      std::from_chars(line.data() + at + key.size(), line.data() + line.size(), number);
  return read.ec == std::errc() ? std::optional(number) : std::nullopt;
}

class Report {
 public:
  void add(std::string_view line) {
    const auto notice = number_behind(line, kNotice);
    const auto notice_rank = number_behind(line, kNoticeRank);
    if (notice && notice_rank) notices_.push_back({*notice_rank, *notice});
    if (line.find(kFirst) != line.npos) is_first_ = true;
    if (line.find(kOthers) != line.npos) is_first_ = false;
    if (const auto rank = number_behind(line, kRank)) rank_ = rank;
    const auto code = number_behind(line, kCode);
    if (code && rank_) (is_first_ ? first_ : others_).push_back({*rank_, *code});
  }

  std::vector<RankExit> exits() && {
    if (first_.empty()) return std::move(notices_);
    first_.insert(first_.end(), others_.begin(), others_.end());
    return std::move(first_);
  }

 private:
  std::vector<RankExit> first_, others_, notices_;
  std::optional<int> rank_;
  bool is_first_ = false;
};

}  // namespace

std::vector<RankExit> reported_exits(std::string_view log) {
  Report report;
  while (!log.empty()) {
    const std::size_t end = std::min(log.find('\n'), log.size());
    report.add(log.substr(0, end));
    log.remove_prefix(std::min(end + 1, log.size()));
  }
  return std::move(report).exits();
}

std::string told(const RankExit& exit) {
  return fmt::format("rank {} {}", exit.rank, how_it_ended(exit.code));
}

}  // namespace planwright::launcher
