#include "cli/print_estimate.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "cli/print_table.h"
#include "estimator/known.h"
#include "estimator/spec/json.h"
#include "estimator/spec/model_part.h"
#include "estimator/wall.h"

namespace planwright::cli {
namespace {

bool is_inside_allocator(Account account) {
  return account != Account::context && account != Account::fragmentation;
}

std::string verdict_line(const Problem& problem, const Estimate& estimate, const Paint& paint) {
  if (estimate.verdict == Verdict::invalid) {
    return fmt::format("{}: {}\n", paint.bad("invalid"), estimate.reason);
  }
  const StageEstimate& peak = estimate.peak();
  const Bytes judged = peak.device_used.value_or(peak.accounts.allocated());
  const bool fits = estimate.verdict == Verdict::fits;
  std::string text = fmt::format(
      "{}: peak {} GiB of {} GiB (rank {}, {}), probability of fitting {:.2f}\n",
      fits ? paint.good("fits") : paint.bad("too large"), gib_text(judged),
      gib_text(capacity(problem)), estimate.peak_rank, word(peak.phase), estimate.fit_probability);
  if (!fits) text += fmt::format("{}\n", estimate.reason);
  return text;
}

/// One line per account that has anything in it; what holds them together below.
std::string memory_table(const Estimate& estimate, const Paint& paint) {
  const StageEstimate& peak = estimate.peak();
  const Bytes scale = peak.device_used.value_or(peak.accounts.allocated());
  std::vector<std::vector<std::string>> rows;
  const auto row = [&](std::string name, Bytes bytes) {
    rows.push_back({std::move(name), gib_text(bytes, scale)});
  };
  const auto add = [&](bool inside) {
    for (std::size_t i = 0; i < kWordCount<Account>; ++i) {
      const auto account = static_cast<Account>(i);
      const Bytes bytes = peak.accounts[account];
      if (is_inside_allocator(account) != inside || bytes == Bytes{}) continue;
      row(fmt::format("  {}", word(account)), bytes);
    }
  };
  add(true);
  row("allocated", peak.accounts.allocated());
  add(false);
  if (peak.reserved) row("reserved", *peak.reserved);
  if (peak.device_used) row("device", *peak.device_used);
  if (estimate.host_bytes > Bytes{}) row("host", estimate.host_bytes);
  return table_text({{"memory", Align::left}, {"GiB", Align::right}}, rows, paint);
}

std::string time_table(const Estimate& estimate, const Paint& paint) {
  const TimeSplit& time = estimate.time;
  const std::pair<const char*, Seconds> parts[] = {{"compute", time.compute},
                                                   {"recompute", time.recompute},
                                                   {"communication", time.communication},
                                                   {"bubble", time.bubble},
                                                   {"optimizer", time.optimizer},
                                                   {"offload", time.offload}};
  std::vector<std::vector<std::string>> rows;
  for (const auto& [name, seconds] : parts) {
    if (seconds > Seconds{}) rows.push_back({fmt::format("  {}", name), ms_text(seconds)});
  }
  rows.push_back({"step", ms_text(estimate.step_time)});
  return table_text({{"time", Align::left}, {"ms", Align::right}}, rows, paint);
}

/// What the peak runs into, and what could move it.
std::string wall_text(const Problem& problem, const TargetTraits& traits,
                      const Candidate& candidate, const Estimate& estimate) {
  const estimator::Ruler ruler = estimator::ruling_account(estimate);
  const auto movers = estimator::movers(problem, traits, candidate, ruler.account);
  return fmt::format("wall: {} ({:.0f} % of the peak), {}{}\n", word(ruler.account),
                     100 * ruler.share, word(estimate.wall),
                     movers.empty() ? "" : "; could be moved by " + join_words(movers));
}

/// What a server is asked about besides.
std::string serving_table(const Problem& problem, const ServingEstimate& s, const Paint& paint) {
  const bool all = s.longest_context == problem.model.max_positions;
  const std::vector<std::vector<std::string>> rows{
      {fmt::format("weights, {}{}", s.weight_format,
                   problem.model.tower_parameters > 0 ? ", image tower included" : ""),
       gib_text(s.weights) + " GiB"},
      {"cache per token", fmt::format("{} bytes", s.cache_per_token.value)},
      {"cache per sequence", gib_text(s.cache_per_sequence, s.weights) + " GiB"},
      {"prefill", gib_text(s.prefill, s.weights) + " GiB"},
      {"decode", gib_text(s.decode, s.weights) + " GiB"},
      {"sequences at once", std::to_string(s.sequences)},
      {"most that fit", std::to_string(s.most_sequences)},
      {all ? "longest context that fits, all positions" : "longest context that fits",
       std::to_string(s.longest_context)}};
  return table_text({{"per rank", Align::left}, {"", Align::right}}, rows, paint);
}

}  // namespace

std::string problem_text(const Problem& problem) {
  const Workload& work = problem.workload;
  const std::string batch =
      work.global_batch == 0 ? "of a plan" : std::to_string(work.global_batch);
  std::string text = fmt::format("{} on {} x {} ({} GiB each), {}: ", problem.model.name,
                                 problem.cluster.devices(), problem.cluster.device.name,
                                 gib_text(problem.cluster.device.memory), problem.target);
  if (!problem.model.stand_in) text += fmt::format("{} {}, ", word(work.job), word(work.precision));
  if (rate_unit(problem) == kTokenRate) text += fmt::format("seq {}, ", work.seq);
  return text + fmt::format("global batch {}", batch);
}

std::string estimate_text(const Problem& problem, const TargetTraits& traits,
                          const Candidate& candidate, const Estimate& estimate,
                          const Paint& paint) {
  std::string text = fmt::format("{}\n{}\n{}", problem_text(problem), describe(candidate),
                                 verdict_line(problem, estimate, paint));
  if (estimate.verdict == Verdict::invalid) return text;
  text += fmt::format("\n{}\n", memory_table(estimate, paint));
  text += wall_text(problem, traits, candidate, estimate);
  if (estimate.serving)
    text += fmt::format("\n{}", serving_table(problem, *estimate.serving, paint));
  text += fmt::format("\n{}\n", time_table(estimate, paint));
  text +=
      fmt::format("{} {}", rate_text(estimate.tokens_per_second_per_device), rate_unit(problem));
  if (estimate.mfu) text += fmt::format(", MFU {:.1f} %", 100 * *estimate.mfu);
  text += fmt::format("\nspread: memory {:.1f} %, time {:.0f} % (one standard deviation)\n",
                      100 * estimate.memory_rel, 100 * estimate.time_rel);
  return text;
}

Json known_json(const Problem& problem, const Estimate& estimate) {
  const bool has_memory = estimator::memory_is_known(problem, estimate);
  Estimate shown = estimate;
  if (!has_memory) shown.stages.clear();  // and the peak with them
  Json json = to_json(shown);
  const auto hide = [&json](std::initializer_list<const char*> keys) {
    for (const char* key : keys) json[key] = nullptr;
  };
  if (problem.model.stand_in) {
    for (Json& count : json["parameters"]) count = nullptr;
  }
  if (!has_memory) hide({"verdict", "reason", "loaded", "host_bytes", "wall", "fit_probability"});
  if (!estimator::time_is_known(problem, estimate)) {
    hide({"step_time_s", "time", "tokens_per_second_per_device", "mfu"});
  }
  return json;
}

Json estimate_json(const Problem& problem, const TargetTraits& traits, const Candidate& candidate,
                   const Estimate& estimate) {
  Json json = to_json(estimate);
  json["candidate"] = full_json(candidate);
  json["target"] = problem.target;
  json["capacity_bytes"] = capacity(problem).value;
  if (estimate.verdict == Verdict::invalid) return json;
  const estimator::Ruler ruler = estimator::ruling_account(estimate);
  json["parameters"]["stages"] = stage_parameters(problem.model, candidate);
  json["wall_account"] = word(ruler.account);
  json["wall_share"] = ruler.share;
  json["wall_moved_by"] = estimator::movers(problem, traits, candidate, ruler.account);
  return json;
}

}  // namespace planwright::cli
