#include "launcher/logs/log_books.h"

#include <algorithm>
#include <cmath>

namespace planwright::launcher {
namespace {

constexpr std::int64_t kMostRank = 1'000'000;

MemoryFigure memory_figure(const Stated& stated) {
  constexpr double kMost = 1152921504606846976.0;  // 2^60, as countable_bytes
  const double bytes = std::clamp(stated.value, -kMost, kMost);
  return {Bytes{std::llround(bytes)}, stated.number, stated.unit};
}

void keep_largest(std::optional<MemoryFigure>& kept, const MemoryFigure& figure) {
  if (!kept || kept->bytes < figure.bytes) kept = figure;
}

std::optional<double> positive(std::optional<double> value) {
  return value && *value > 0 && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<double> inverse(std::optional<double> rate) {
  return positive(rate) ? positive(1 / *rate) : std::nullopt;
}

struct StepTime {
  double seconds = 0;
  StepSource source = StepSource::stated;
};

std::optional<StepTime> step_time(const LineFigures& figures) {
  if (const auto stated = positive(figures.value(Field::step_time))) {
    return StepTime{*stated, StepSource::stated};
  }
  if (const auto parts = positive(figures.value(Field::part_time))) {
    return StepTime{*parts, StepSource::parts};
  }
  if (const auto rate = inverse(figures.value(Field::steps_per_s))) {
    return StepTime{*rate, StepSource::rate};
  }
  return std::nullopt;
}

/// A device that ran full explains whatever else the rank says, and a failure of its own more than
/// what another rank's end did to it, or than what the place lacks if steps were made without it.
bool tells_more(const LoggedFailure& failure, const LoggedFailure& kept,
                std::int64_t last_timed_line) {
  const bool done_without = kept.kind == OutcomeKind::environment && kept.at_line < last_timed_line;
  if (done_without && !failure.consequence) return true;
  const bool full = failure.kind == OutcomeKind::out_of_memory;
  if (full && kept.kind != OutcomeKind::out_of_memory) return true;
  return full ? failure.out_of_memory && !kept.out_of_memory
              : kept.consequence && !failure.consequence;
}

}  // namespace

void LogBooks::add(Rank rank, const LineFigures& figures, std::int64_t at_line) {
  if (const auto stated = figures.whole(Field::rank); stated && *stated < kMostRank) {
    rank = static_cast<int>(*stated);
  }
  add_memory(rank, figures);
  add_means(figures);
  if (of_another_loop(figures)) return;
  if (const auto step = figures.whole(Field::step)) summary_.last_step = step;
  const std::int64_t timed = steps_.added() + rates_.added();
  add_step(rank, figures);
  add_rates(rank, figures);
  if (steps_.added() + rates_.added() > timed) summary_.last_timed_line = at_line;
  add_loss(rank, figures);
}

/// The first loop that says how long it is is the training; others evaluate or load.
bool LogBooks::of_another_loop(const LineFigures& figures) {
  const auto total = figures.whole(Field::steps);
  if (!total) return false;
  if (!steps_total_) steps_total_ = total;
  return steps_total_ != total;
}

/// The line of the same rank and step, if it is the rank's last. Bars are drawn again and again, at
/// the end with the mean of the run: what is drawn first counts.
/// Source: tqdm/tqdm tqdm/std.py @ 4.70, close().
StepLine* LogBooks::known_step(const StepLine& line) {
  if (!line.step) return nullptr;
  const auto last = last_steps_.find(line.rank);
  if (last == last_steps_.end() || last->second.step != *line.step) return nullptr;
  return steps_.find(last->second.number);
}

void LogBooks::add_step(Rank rank, const LineFigures& figures) {
  const auto time = step_time(figures);
  if (!time) return;
  const StepLine line{rank, figures.whole(Field::step), time->seconds, time->source};
  if (StepLine* const known = known_step(line)) {
    if (line.source < known->source) *known = line;
    return;
  }
  if (line.step && (last_steps_.count(rank) > 0 || last_steps_.size() < kMostLoggedRanks)) {
    last_steps_[rank] = {*line.step, steps_.added()};
  }
  steps_.add(line);
}

void LogBooks::add_rates(Rank rank, const LineFigures& figures) {
  constexpr std::pair<Field, RateKind> kKinds[] = {
      {Field::tokens_per_s, RateKind::tokens},
      {Field::tokens_per_s_per_device, RateKind::tokens_per_device},
      {Field::samples_per_s, RateKind::samples},
  };
  for (const auto& [field, kind] : kKinds) {
    const auto rate = positive(figures.value(field));
    if (!rate) continue;
    rates_.add({rank, figures.whole(Field::step), kind, *rate});
  }
}

void LogBooks::add_means(const LineFigures& figures) {
  RunMeans& means = summary_.means;
  if (const auto rate = inverse(figures.value(Field::mean_steps_per_s))) means.step_s = rate;
  if (const auto time = positive(figures.value(Field::mean_step_time))) means.step_s = time;
  if (const auto rate = positive(figures.value(Field::mean_tokens_per_s)))
    means.tokens_per_s = rate;
  if (const auto rate = positive(figures.value(Field::mean_samples_per_s)))
    means.samples_per_s = rate;
}

void LogBooks::add_loss(Rank rank, const LineFigures& figures) {
  const auto loss = figures.value(Field::loss);
  if (!loss) return;
  const auto finite = std::isfinite(*loss) ? loss : std::nullopt;
  losses_.add({rank, figures.whole(Field::step), finite});
  Losses& losses = summary_.losses;
  ++losses.seen;
  if (finite) {
    losses.last = loss;
    return;
  }
  if (losses.not_finite++ == 0) losses.first_not_finite_step = figures.whole(Field::step);
}

void LogBooks::add_memory(Rank rank, const LineFigures& figures) {
  struct Kind {
    Field field;
    std::optional<MemoryFigure> LoggedMemory::*member;
    bool largest;
  };
  constexpr Kind kKinds[] = {
      {Field::allocated, &LoggedMemory::allocated, false},
      {Field::allocated_peak, &LoggedMemory::allocated_peak, true},
      {Field::reserved, &LoggedMemory::reserved, false},
      {Field::reserved_peak, &LoggedMemory::reserved_peak, true},
      {Field::device_used, &LoggedMemory::device_used, true},
  };
  LoggedMemory* of_rank = nullptr;
  if (const auto retries = figures.whole(Field::allocation_retries);
      retries && has_room_for(rank)) {
    of_rank = &summary_.memory[rank];
    of_rank->allocation_retries = std::max(of_rank->allocation_retries, *retries);
  }
  for (const Kind& kind : kKinds) {
    const Stated* const stated = figures.find(kind.field);
    if (stated == nullptr) continue;
    if (of_rank == nullptr && !has_room_for(rank)) return;
    if (of_rank == nullptr) of_rank = &summary_.memory[rank];
    auto& kept = of_rank->*kind.member;
    if (kind.largest) {
      keep_largest(kept, memory_figure(*stated));
    } else {
      kept = memory_figure(*stated);
    }
  }
}

bool LogBooks::has_room_for(Rank rank) const {
  return summary_.memory.size() < kMostLoggedRanks || summary_.memory.count(rank) > 0;
}

void LogBooks::add_peak_part(Rank rank, std::size_t pattern, const Stated& bytes) {
  if (!has_room_for(rank)) return;
  summary_.memory.try_emplace(rank);
  peak_parts_[{rank, pattern}] = memory_figure(bytes).bytes;
}

void LogBooks::add_failure(Rank rank, LoggedFailure failure) {
  if (failure.killed && !summary_.killed) summary_.killed = LoggedCause{rank, failure};
  const auto kept = summary_.failures.find(rank);
  if (kept == summary_.failures.end()) {
    if (summary_.failures.size() < kMostLoggedRanks) {
      summary_.failures.emplace(rank, std::move(failure));
    }
  } else if (tells_more(failure, kept->second, summary_.last_timed_line)) {
    kept->second = std::move(failure);
  }
}

LogSummary LogBooks::close(std::int64_t lines, std::int64_t bytes) {
  std::map<Rank, double> peaks;
  for (const auto& [key, part] : peak_parts_) {
    peaks[key.first] += static_cast<double>(part.value);
  }
  for (const auto& [rank, peak] : peaks) {
    keep_largest(summary_.memory[rank].allocated_peak, memory_figure({peak, peak, LogUnit::bytes}));
  }
  summary_.steps = steps_.in_order();
  summary_.rates = rates_.in_order();
  summary_.loss_lines = losses_.in_order();
  summary_.steps_seen = steps_.added();
  summary_.rates_seen = rates_.added();
  summary_.lines = lines;
  summary_.bytes = bytes;
  return std::move(summary_);
}

}  // namespace planwright::launcher
