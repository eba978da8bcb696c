#include "probes/protocol/probe_report.h"

#include <algorithm>

#include "estimator/spec/error.h"
#include "estimator/spec/json_fields.h"
#include "estimator/spec/median.h"

namespace planwright::json_io {

using probes::MemoryEvent;
using probes::RankJobReport;
using probes::RankReport;

template <>
struct Fields<MemoryEvent> {
  static constexpr auto kFields = std::tuple{
      Field{"phase", &MemoryEvent::phase},
      Field{"account", &MemoryEvent::account},
      Field{"bytes", &MemoryEvent::bytes},
      Field{"tensor_bytes", &MemoryEvent::tensors},
  };
};

template <>
struct Fields<RankJobReport> {
  static constexpr auto kFields = std::tuple{
      Field{"end", &RankJobReport::end},
      Field{"message", &RankJobReport::message},
      Field{"measurement", &RankJobReport::measurement},
      Field{"losses", &RankJobReport::losses},
      Field{"out_of_memory", &RankJobReport::out_of_memory},
      Field{"timeline", &RankJobReport::timeline},
  };
};

template <>
struct Fields<RankReport> {
  static constexpr auto kFields = std::tuple{
      Field{"rank", &RankReport::rank, kNatural},
      Field{"first_step_monotonic_s", &RankReport::first_step_monotonic_s},
      Field{"jobs", &RankReport::jobs},
      Field{"rates", &RankReport::rates},
      Field{"environment", &RankReport::environment},
  };
};

}  // namespace planwright::json_io

namespace planwright::probes {
namespace {

/// A step lasts as long as its slowest rank.
std::vector<double> slowest(const std::vector<RankMeasurement>& ranks) {
  std::vector<double> steps = ranks.front().steps_s;
  for (const auto& rank : ranks) {
    if (rank.steps_s.size() != steps.size()) {
      throw WorldError("rank " + std::to_string(rank.rank) + " reports " +
                       std::to_string(rank.steps_s.size()) + " measured steps, rank " +
                       std::to_string(ranks.front().rank) + " " + std::to_string(steps.size()));
    }
    for (std::size_t i = 0; i < steps.size(); ++i) steps[i] = std::max(steps[i], rank.steps_s[i]);
  }
  if (steps.empty()) throw WorldError("the ranks report no measured step");
  return steps;
}

}  // namespace

Json to_json(const RankReport& report) { return json_io::encode(report, json_io::Form::full); }

RankReport rank_report_from_json(const Json& json, const std::string& source) {
  RankReport report;
  json_io::decode(json, json_io::Place(source), report);
  return report;
}

Measurement summarize(const std::vector<RankReport>& reports, std::size_t job,
                      std::int64_t tokens_per_step) {
  if (reports.empty()) throw WorldError("no rank has reported");
  Measurement out;
  for (const auto& report : reports) {
    if (job >= report.jobs.size()) {
      throw WorldError("rank " + std::to_string(report.rank) + " did not report job " +
                       std::to_string(job));
    }
    out.ranks.push_back(report.jobs[job].measurement);
    out.ranks.back().rank = report.rank;
  }
  std::sort(out.ranks.begin(), out.ranks.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  out.steps_s = slowest(out.ranks);
  out.step_time_s = median(out.steps_s);
  const auto devices = static_cast<double>(reports.size());
  out.tokens_per_second_per_device =
      static_cast<double>(tokens_per_step) / out.step_time_s / devices;
  out.losses = reports.front().jobs[job].losses;
  return out;
}

}  // namespace planwright::probes
