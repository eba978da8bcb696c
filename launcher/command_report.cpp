#include "launcher/command_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "estimator/spec/words.h"
#include "launcher/logs/line_text.h"

namespace planwright::launcher {
namespace {

using Line = nlohmann::json;

const std::vector<std::string> kKeys{"step",       "time_s",      "loss",
                                     "peak_bytes", "step_time_s", "tokens_per_second"};
constexpr std::size_t kMostIgnored = 4;
constexpr std::size_t kLongestKey = 60;

bool is_among(const std::vector<std::string>& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

void ignore(const std::string& clause, CommandReport& report) {
  auto& ignored = report.ignored;
  if (ignored.size() < kMostIgnored && !is_among(ignored, clause)) ignored.push_back(clause);
}

void note_unknown_keys(const Line& line, CommandReport& report) {
  for (const auto& [given, value] : line.items()) {
    const std::string key = printable(given, kLongestKey);
    if (is_among(kKeys, key)) continue;
    const std::string near = nearest_word(key, kKeys);
    ignore(fmt::format("{} is no key of PLANWRIGHT_REPORT{}", key,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near)),
           report);
  }
}

void note_odd_loss(const Line& line, CommandReport& report) {
  const auto loss = line.find("loss");
  if (loss == line.end() || loss->is_number() || loss->is_null()) return;
  ignore(fmt::format("loss must be a number, and is of the type {}", loss->type_name()), report);
}

/// Sound figures, or the first thing that is wrong, said once.
class LineReader {
 public:
  LineReader(const Line& line, std::int64_t number, CommandReport& report)
      : line_(line), number_(number), report_(report) {}

  std::optional<double> positive(const char* key) {
    const auto found = line_.find(key);
    if (found == line_.end()) return std::nullopt;
    if (found->is_number() && found->get<double>() > 0 && std::isfinite(found->get<double>())) {
      return found->get<double>();
    }
    note(fmt::format("{} = {} must be a finite number of more than zero", key, shown(*found)));
    return std::nullopt;
  }

  std::optional<Bytes> bytes(const char* key) {
    constexpr double kMost = 1e18;
    const auto value = positive(key);
    if (value && *value > kMost) note(fmt::format("{} = {} is no number of bytes", key, *value));
    return value && *value <= kMost ? std::optional(Bytes{std::llround(*value)}) : std::nullopt;
  }

  void note(const std::string& problem) {
    if (report_.problem.empty()) report_.problem = fmt::format("line {}: {}", number_, problem);
  }

 private:
  static std::string shown(const Line& value) {
    return value.dump(-1, ' ', false, Line::error_handler_t::replace).substr(0, 60);
  }

  const Line& line_;
  std::int64_t number_;
  CommandReport& report_;
};

void read_loss(const Line& line, CommandReport& report) {
  const auto loss = line.find("loss");
  if (loss == line.end()) return;
  if (loss->is_number()) report.losses.push_back(loss->get<double>());
  if (loss->is_null() && !report.lost_step) report.lost_step = line["step"].get<std::int64_t>();
}

void read_line(const Line& line, std::int64_t number, CommandReport& report) {
  LineReader reader(line, number, report);
  note_unknown_keys(line, report);
  note_odd_loss(line, report);
  const auto peak = reader.bytes("peak_bytes");
  if (peak) report.peak = std::max(report.peak.value_or(Bytes{}), *peak);
  if (!line.contains("step")) {
    if (const auto time = reader.positive("step_time_s")) report.step_time_s = time;
    if (const auto rate = reader.positive("tokens_per_second")) report.tokens_per_second = rate;
    return;
  }
  if (!line["step"].is_number_integer()) return reader.note("step must be a whole number");
  if (const auto time = reader.positive("time_s")) {
    report.steps.push_back({line["step"].get<std::int64_t>(), *time});
  }
  read_loss(line, report);
}

/// Python's json writes NaN and Infinity, which are no JSON.
bool names_no_number(std::string_view text) {
  return text.find("NaN") != text.npos || text.find("Infinity") != text.npos;
}

std::string_view without_blanks_behind(std::string_view text) {
  return text.substr(0, text.find_last_not_of(" \t") + 1);
}

/// Whether a loss is to come behind `text`.
bool ends_with_loss_key(std::string_view text) {
  constexpr std::string_view kKey = "\"loss\"";
  text = without_blanks_behind(text);
  if (text.empty() || text.back() != ':') return false;
  text = without_blanks_behind(text.substr(0, text.size() - 1));
  return text.size() >= kKey.size() && text.substr(text.size() - kKey.size()) == kKey;
}

/// With null for a loss that is one of them.
std::string with_lost_loss(std::string text) {
  for (const std::string_view none : {"NaN", "-Infinity", "Infinity"}) {
    for (std::size_t at = text.find(none); at != text.npos; at = text.find(none, at + 1)) {
      if (ends_with_loss_key(std::string_view(text).substr(0, at))) {
        text.replace(at, none.size(), "null");
      }
    }
  }
  return text;
}

Line parsed(std::string_view text) {
  return Line::parse(names_no_number(text) ? with_lost_loss(std::string(text)) : std::string(text),
                     nullptr, false);
}

void read_text_line(std::string_view text, std::int64_t number, CommandReport& report) {
  const Line line = parsed(text);
  if (line.is_object()) return read_line(line, number, report);
  if (!report.problem.empty()) return;
  report.problem =
      fmt::format("line {}: is no JSON object{}", number,
                  names_no_number(text) ? ", for NaN and Infinity are no numbers" : "");
}

/// A whole document over many lines, or an object per line.
CommandReport report_of(std::string_view text) {
  CommandReport report;
  if (const Line whole = parsed(text); whole.is_object()) {
    read_line(whole, 1, report);
    return report;
  }
  for (std::int64_t number = 1; !text.empty(); ++number) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    if (line.find_first_not_of(" \t\r") != line.npos) read_text_line(line, number, report);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return report;
}

}  // namespace

std::optional<CommandReport> read_command_report(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::nullopt;
  try {
    const std::string text = read_given_file(path);
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return std::nullopt;
    return report_of(text);
  } catch (const InputError& refused) {
    CommandReport report;
    report.problem = refused.what();
    return report;
  }
}

}  // namespace planwright::launcher
