#include "cli/row_versions.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "cli/row_words.h"
#include "estimator/csv.h"

namespace planwright::cli {
namespace {

using estimator::Csv;
using KnobValue = std::pair<std::string, std::string>;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// The number that `text` begins with; empty if it begins with none.
Version leading_version(std::string_view text) {
  Version version;
  while (!text.empty() && is_digit(text.front())) {
    int number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    version.push_back(number);
    text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
    if (text.size() < 2 || text.front() != '.') break;
    text.remove_prefix(1);
  }
  return version;
}

std::optional<Version> if_any(Version version) {
  return version.empty() ? std::nullopt : std::optional(std::move(version));
}

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

/// Whether the form, of which each 'd' is a digit, stands alone there.
bool has_form(const std::string& text, std::size_t at, std::string_view form) {
  const std::size_t end = at + form.size();
  if (end > text.size() || (at > 0 && is_word(text[at - 1]))) return false;
  if (end < text.size() && is_word(text[end])) return false;
  for (std::size_t i = 0; i < form.size(); ++i) {
    if (form[i] == 'd' ? !is_digit(text[at + i]) : text[at + i] != form[i]) return false;
  }
  return true;
}

/// The first day, month or year of this century that a text names; empty if it names none.
std::string day_named(const std::string& text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (const std::string_view form : {"20dd-dd-dd", "20dd-dd", "20dd"}) {
      if (has_form(text, at, form)) return text.substr(at, form.size());
    }
  }
  return "";
}

/// When the row's figures were published at the latest.
std::string day_of(const MeasuredRow& row) { return day_named(row.text("source_version")); }

/// The version that the row names; a number alone is that of the package that its framework is.
std::optional<Version> version_of(const MeasuredRow& row, std::string_view package) {
  const std::string& list = row.text("framework_version");
  if (auto named = version_named(list, package)) return named;
  const auto own = known_meaning("package", row.text("framework"));
  return own == package ? if_any(leading_version(list)) : std::nullopt;
}

const Csv& version_table() {
  static const Csv kTable(row_data("row_versions.csv"), "row_versions.csv");
  return kTable;
}

const Csv& reading_table() {
  static const Csv kTable(row_data("row_readings.csv"), "row_readings.csv");
  return kTable;
}

/// Whether the version of the table's row is at most the one that the measured row names, or was
/// out on its day; false where it says neither.
bool is_reached(const MeasuredRow& row, std::size_t line) {
  const Csv& table = version_table();
  if (const auto version = version_of(row, table.cell(line, "package"))) {
    return leading_version(table.cell(line, "from")) <= *version;
  }
  const std::string day = day_of(row);
  return !day.empty() && table.cell(line, "published") <= day;
}

/// Whether everything that a reading needs may have been there. `needs` is as
/// "transformers 4.45 torch 2.1.2".
bool may_be(const MeasuredRow& row, std::size_t line) {
  const Csv& table = reading_table();
  const std::string& needs = table.cell(line, "needs");
  for (const char* package : {"transformers", "torch"}) {
    const auto least = version_named(needs, package);
    const auto ran = version_of(row, package);
    if (least && ran && *ran < *least) return false;
  }
  if (version_of(row, "transformers")) return true;
  const std::string day = day_of(row);
  return day.empty() || table.cell(line, "published") <= day;
}

bool has_word(const std::string& list, std::string_view word) {
  return (" " + list + " ").find(" " + std::string(word) + " ") != std::string::npos;
}

/// Whether a reading of the table is one that the row leaves open.
bool is_open(const MeasuredRow& row, const std::vector<Knob>& knobs, Job job, std::size_t line) {
  const Csv& table = reading_table();
  const std::string& knob = table.cell(line, "knob");
  const std::string& jobs = table.cell(line, "jobs");
  if (knob == "kernels" && row.says("kernels")) return false;
  return has_knob(knobs, knob) && (jobs == "all" || has_word(jobs, word(job))) && may_be(row, line);
}

Candidate read_as(Candidate candidate, std::size_t line) {
  const Csv& table = reading_table();
  const std::string& name = table.cell(line, "knob");
  std::erase_if(candidate.knobs, [&](const KnobValue& knob) { return knob.first == name; });
  candidate.knobs.emplace_back(name, table.cell(line, "value"));
  const auto loss = from_word<LossKernel>(table.cell(line, "loss"));
  candidate.loss = loss.value_or(candidate.loss);
  return candidate;
}

}  // namespace

bool has_knob(const std::vector<Knob>& knobs, const std::string& name) {
  return std::any_of(knobs.begin(), knobs.end(), [&](const Knob& k) { return k.name == name; });
}

std::optional<Version> version_named(const std::string& list, std::string_view package) {
  for (std::size_t at = list.find(package); at != std::string::npos;
       at = list.find(package, at + 1)) {
    const std::size_t end = at + package.size();
    const bool whole = (at == 0 || list[at - 1] == ' ') && end + 1 < list.size();
    if (!whole || list[end] != ' ') continue;
    return if_any(leading_version(std::string_view(list).substr(end + 1)));
  }
  return std::nullopt;
}

std::vector<KnobValue> version_knobs(RowCells& cells, const std::vector<Knob>& knobs) {
  const Csv& table = version_table();
  std::vector<KnobValue> decided;
  for (std::size_t line = 0; line < table.rows(); ++line) {
    const KnobValue value{table.cell(line, "knob"), table.cell(line, "value")};
    if (!has_knob(knobs, value.first) || !is_reached(cells.row(), line)) continue;
    std::erase_if(decided, [&](const KnobValue& each) { return each.first == value.first; });
    decided.push_back(value);
    if (!version_of(cells.row(), table.cell(line, "package"))) {
      cells.assume(fmt::format("{} as of {}", value.first, day_of(cells.row())));
    }
  }
  return decided;
}

std::vector<Candidate> other_readings(const MeasuredRow& row, const std::vector<Knob>& knobs,
                                      const Candidate& candidate, Job job) {
  std::vector<Candidate> readings{candidate};
  for (std::size_t line = 0; line < reading_table().rows(); ++line) {
    if (!is_open(row, knobs, job, line)) continue;
    const std::vector<Candidate> before = readings;
    for (const Candidate& each : before) readings.push_back(read_as(each, line));
  }
  readings.erase(readings.begin());
  return readings;
}

}  // namespace planwright::cli
