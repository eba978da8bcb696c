#include "launcher/logs/log_reader.h"

#include <algorithm>
#include <cctype>

#include "launcher/logs/failure_signs.h"
#include "launcher/logs/line_text.h"

namespace planwright::launcher {
namespace {

/// Figures and messages stand at the beginning; a longer line is data that somebody printed.
constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kLongestFailureLine = 1024;
/// Frames between a traceback's first line and its exception; more are another rank's lines.
constexpr int kLongestTraceback = 400;
constexpr double kMostRank = 1e6;
constexpr std::string_view kTraceback = "Traceback (most recent call last)";

/// glog's and torchrun's level letters, Python's logging and warnings.
bool is_below_error(std::string_view line) {
  const std::string_view head = line.substr(line.substr(0, 1) == "[" ? 1 : 0);
  const bool letter = head.substr(0, 1) == "W" || head.substr(0, 1) == "I";
  if (letter && head.size() > 1 &&
      (std::isdigit(static_cast<unsigned char>(head[1])) || head[1] == ' ')) {
    return true;
  }
  const std::string_view beginning = line.substr(0, 160);
  for (const std::string_view level : {"WARN", "INFO", "Warning: "}) {
    if (beginning.find(level) != beginning.npos) return true;
  }
  return false;
}

bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

/// The last component of `torch.OutOfMemoryError` where a line begins with it and `: ` or nothing
/// follows; empty if the line begins otherwise.
std::string_view exception_name(std::string_view line) {
  const auto end =
      static_cast<std::size_t>(std::find_if_not(line.begin(), line.end(), is_name) - line.begin());
  const bool alone = end == line.size() || line.substr(end, 2) == ": " || line.substr(end) == ":";
  if (end == 0 || !alone) return {};
  const std::string_view name = line.substr(0, end);
  const std::string_view last = name.substr(name.rfind('.') + 1);
  return !last.empty() && std::isupper(static_cast<unsigned char>(last[0])) ? last
                                                                            : std::string_view{};
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

bool names_error(std::string_view line) {
  const std::string_view name = exception_name(line);
  return ends_with(name, "Error") || ends_with(name, "Exception") || ends_with(name, "Interrupt");
}

std::optional<int> rank_of(double number) {
  return number < kMostRank ? std::optional(static_cast<int>(number)) : std::nullopt;
}

/// None if its figures count whatever is known of the line already.
FieldSet fields_of(const Pattern& pattern) {
  FieldSet fields = 0;
  for (const Field field : pattern.fields()) {
    if (field == Field::allocated_peak_part) return 0;
    if (field != Field::number) fields |= field_bit(field);
  }
  return fields;
}

std::optional<Bytes> bytes_of(const LineFigures& figures, Field field) {
  const auto value = figures.value(field);
  return value ? std::optional(countable_bytes(*value)) : std::nullopt;
}

}  // namespace

LogReader::LogReader(const std::vector<LogFormat>& formats) : cutter_(kLongestLine) {
  for (const LogFormat& format : formats) {
    for (const std::string& each : format.ignored) {
      ignored_.emplace_back(each, format.name, "ignored");
      add_search(ignored_.back().anchor(), Role::ignored, ignored_.size() - 1);
    }
    for (const std::string& each : format.lines) {
      Pattern pattern(each, format.name, "lines");
      const FieldSet fields = fields_of(pattern);
      figure_patterns_.push_back(
          {std::move(pattern), fields, format.decimal_comma, format.binary_units});
      add_search(figure_patterns_.back().pattern.anchor(), Role::figures,
                 figure_patterns_.size() - 1);
    }
  }
  for (const FailureSign& each : failure_signs()) {
    signs_.emplace_back(each.pattern, "failure signs", "");
    add_search(signs_.back().anchor(), Role::sign, signs_.size() - 1);
  }
  for (const std::string_view each : out_of_memory_details()) {
    details_.emplace_back(each, "out-of-memory details", "");
  }
  add_search(std::string(kTraceback), Role::traceback, 0);
  for (const char* const word : {"Error", "Exception", "Interrupt"}) {
    add_search(word, Role::exception, 0);
  }
}

void LogReader::add_search(const std::string& text, Role role, std::size_t row) {
  const std::size_t number = texts_.add(text);
  if (number == text_rows_.size()) text_rows_.emplace_back();
  text_rows_[number].searches.push_back(searches_.size());
  searches_.push_back({role, row, number});
}

void LogReader::append(std::string_view bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  cutter_.append(bytes, [this](std::string_view line, bool cut) { read_line(line, cut); });
}

void LogReader::gap() {
  cutter_.gap([this](std::string_view line, bool cut) { read_line(line, cut); });
  tracebacks_.clear();
}

LogSummary LogReader::finish() {
  cutter_.finish([this](std::string_view line, bool cut) { read_line(line, cut); });
  return books_.close(lines_, bytes_);
}

void LogReader::read_line(std::string_view raw, bool cut) {
  ++lines_;
  const std::string_view text = without_escapes(raw, without_escapes_);
  look_for(text);
  if (found_.empty() && tracebacks_.empty()) return;
  const RankedLine ranked = split_rank(text);
  const Line line{ranked.rank, {ranked.text, cut}, text.size() - ranked.text.size()};
  read_failure(line);
  if (!is_ignored(line)) read_figures(line);
}

/// What may be found in the line, in the order in which it is to be tried.
void LogReader::look_for(std::string_view text) {
  found_.clear();
  found_roles_ = 0;
  texts_.search(text, [this](std::size_t number, std::size_t at) {
    Text& its = text_rows_[number];
    its.places.last = at;
    if (its.found_in == lines_) return;
    its.found_in = lines_;
    its.places.first = at;
    for (const std::size_t each : its.searches) {
      found_.push_back(each);
      found_roles_ |= 1U << static_cast<unsigned>(searches_[each].role);
    }
  });
  std::sort(found_.begin(), found_.end());
}

/// The figures are in `figures_`.
bool LogReader::matches(const Pattern& pattern, const Search& search, const Line& line,
                        bool decimal_comma) {
  figures_.clear();
  LineText text = line.text;
  text.decimal_comma = decimal_comma;
  const auto [first, last] = text_rows_[search.text].places;
  if (last < line.prefix) return false;
  return pattern.find(text, figures_, {first - std::min(first, line.prefix), last - line.prefix});
}

bool LogReader::is_ignored(const Line& line) {
  return found(Role::ignored) && std::any_of(found_.begin(), found_.end(), [&](std::size_t each) {
           const Search& search = searches_[each];
           return search.role == Role::ignored &&
                  matches(ignored_[search.row], search, line, false);
         });
}

void LogReader::read_figures(const Line& line) {
  if (!found(Role::figures)) return;
  bool any = false;
  line_figures_.clear();
  for (const std::size_t each : found_) {
    const Search& search = searches_[each];
    if (search.role != Role::figures) continue;
    const FigurePattern& its = figure_patterns_[search.row];
    const bool nothing_new = its.fields != 0 && (its.fields & ~line_figures_.known()) == 0;
    if (nothing_new || !matches(its.pattern, search, line, its.decimal_comma)) continue;
    any = true;
    line_figures_.add(figures_.data(), figures_.size(), its.binary_units);
    for (const Figure& figure : figures_) {
      if (figure.field != Field::allocated_peak_part) continue;
      const double bytes = figure.number * unit_factor(figure.unit, its.binary_units);
      books_.add_peak_part(line.rank, search.row, {bytes, figure.number, figure.unit});
    }
  }
  if (any) books_.add(line.rank, line_figures_, lines_);
}

void LogReader::read_failure(const Line& line) {
  if (found(Role::traceback) && line.text.text.find(kTraceback) != std::string_view::npos) {
    if (tracebacks_.size() < kMostLoggedRanks) tracebacks_[line.rank] = 0;
    return;
  }
  const bool after_frames = in_traceback(line);
  const bool blank = line.text.text.empty() || line.text.text[0] == ' ';
  if (after_frames && blank) return;  // a frame, with any words in its source
  const bool raised = after_frames && !exception_name(line.text.text).empty();
  if (raised) tracebacks_.erase(line.rank);
  const bool warning = found(Role::sign) && !raised && is_below_error(line.text.text);
  if (found(Role::sign) && read_sign(line, warning)) return;
  if (raised || (found(Role::exception) && names_error(line.text.text))) {
    add_failure(line, line.rank, {});
  }
}

bool LogReader::in_traceback(const Line& line) {
  const auto its = tracebacks_.find(line.rank);
  if (its == tracebacks_.end()) return false;
  if (++its->second <= kLongestTraceback) return true;
  tracebacks_.erase(its);
  return false;
}

bool LogReader::read_sign(const Line& line, bool warning) {
  for (const std::size_t each : found_) {
    if (searches_[each].role != Role::sign) continue;
    const std::size_t row = searches_[each].row;
    const FailureSign& sign = failure_signs()[row];
    if (warning && sign.weight != SignWeight::any_level) continue;
    if (sign.weight == SignWeight::at_start && books_.has_timed_a_step()) continue;
    if (!matches(signs_[row], searches_[each], line, false)) continue;
    std::optional<int> rank = line.rank;
    for (const Figure& figure : figures_) {
      if (figure.field == Field::rank && !rank) rank = rank_of(figure.number);
    }
    add_failure(line, rank, sign);
    return true;
  }
  return false;
}

void LogReader::add_failure(const Line& line, std::optional<int> rank, const FailureSign& sign) {
  LoggedFailure failure;
  failure.kind = sign.kind;
  failure.consequence = sign.weight == SignWeight::consequence;
  failure.killed = sign.killed;
  failure.line = printable(line.text.text, kLongestFailureLine);
  failure.at_line = lines_;
  failure.steps_before = books_.steps_seen();
  if (sign.kind == OutcomeKind::out_of_memory || sign.kind == OutcomeKind::host_out_of_memory) {
    const LoggedOutOfMemory details = read_details(line);
    if (!(details == LoggedOutOfMemory{})) failure.out_of_memory = details;
  }
  books_.add_failure(rank, std::move(failure));
}

LoggedOutOfMemory LogReader::read_details(const Line& line) {
  LineFigures figures;
  for (const Pattern& each : details_) {
    figures_.clear();
    if (each.find(line.text, figures_)) figures.add(figures_.data(), figures_.size(), true);
  }
  LoggedOutOfMemory details;
  details.requested = bytes_of(figures, Field::oom_requested);
  details.allocated = bytes_of(figures, Field::oom_allocated);
  details.reserved = bytes_of(figures, Field::oom_reserved);
  details.free = bytes_of(figures, Field::oom_free);
  details.capacity = bytes_of(figures, Field::oom_capacity);
  const auto unallocated = bytes_of(figures, Field::oom_unallocated);
  if (!details.reserved && details.allocated && unallocated) {
    details.reserved = *details.allocated + *unallocated;
  }
  if (const auto device = figures.value(Field::oom_device)) details.device = rank_of(*device);
  return details;
}

}  // namespace planwright::launcher
