#include "launcher/observer_report.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "estimator/spec/error.h"
#include "estimator/spec/text_file.h"
#include "launcher/logs/line_text.h"

namespace planwright::launcher {
namespace {

namespace fs = std::filesystem;
using Line = nlohmann::json;

constexpr std::string_view kSchema = "planwright.observer/1";
/// A line has a few hundred bytes and a file a line per step; what is longer is not the observer's.
constexpr std::size_t kMostBytes = std::size_t{64} << 20;
constexpr double kMostWhole = 9007199254740992.0;  // 2^53

/// The number under `key`, if it is one and not negative.
std::optional<double> number(const Line& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) && value >= 0 ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> whole(const Line& line, const char* key) {
  const auto value = number(line, key);
  if (!value || *value > kMostWhole || *value != std::floor(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<Bytes> bytes(const Line& line, const char* key) {
  const auto value = whole(line, key);
  return value ? std::optional(Bytes{*value}) : std::nullopt;
}

std::string text(const Line& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

bool flag(const Line& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_boolean() && found->get<bool>();
}

/// The object under `key`, or an empty one.
Line object(const Line& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_object() ? *found : Line::object();
}

ObservedMemory memory_of(const Line& memory) {
  return {.current = bytes(memory, "current"),
          .peak = bytes(memory, "peak"),
          .reserved_peak = bytes(memory, "reserved_peak"),
          .device_used = bytes(memory, "device_used"),
          .device_total = bytes(memory, "device_total")};
}

/// An account has an entry for each kind of device on which it holds anything.
std::optional<Bytes> on_device(const Line& accounts, const char* account,
                               const std::string& device) {
  const auto found = accounts.find(account);
  if (found == accounts.end() || !found->is_object()) return std::nullopt;
  return found->contains(device) ? bytes(*found, device.c_str()) : Bytes{};
}

std::optional<ObservedAccounts> accounts_of(const Line& line) {
  const auto found = line.find("accounts");
  if (found == line.end() || !found->is_object()) return std::nullopt;
  const std::string device = text(line, "device");
  return ObservedAccounts{.parameters = on_device(*found, "parameters", device),
                          .gradients = on_device(*found, "gradients", device),
                          .optimizer = on_device(*found, "optimizer", device),
                          .communication = on_device(*found, "communication", device),
                          .buffers = on_device(*found, "buffers", device)};
}

ObservedStep step_of(const Line& line) {
  return {.step = whole(line, "step").value_or(0),
          .time_s = number(line, "time_s"),
          .micro_batches = whole(line, "micro_batches"),
          .skipped = flag(line, "skipped"),
          .memory = memory_of(object(line, "memory")),
          .rss = bytes(line, "rss"),
          .accounts = accounts_of(line)};
}

ObservedFull full_of(const Line& line) {
  return {.step = whole(line, "step").value_or(0),
          .caught = flag(line, "caught"),
          .on_cpu = text(line, "device") == "cpu",
          .requested = bytes(line, "requested"),
          .allocated = bytes(line, "allocated"),
          .reserved = bytes(line, "reserved"),
          .capacity = bytes(line, "capacity"),
          .message = text(line, "message")};
}

void note_versions(const Line& line, ObservedProcess& process) {
  const Line versions = object(line, "versions");
  for (const auto& [name, version] : versions.items()) {
    if (version.is_string()) process.versions[name] = version.get<std::string>();
  }
}

/// Steps that are counted anew from 1 take the place of those before: they were parts of one.
void note_step(ObservedStep step, ObservedProcess& process) {
  if (step.step == 1) process.steps.clear();
  process.steps.push_back(step);
}

/// What a script wrote for a terminal, for a message.
std::string one_line(std::string text) {
  constexpr std::size_t kLongest = 2000;
  std::replace(text.begin(), text.end(), '\n', ' ');
  std::string storage;
  return printable(without_escapes(text, storage), kLongest);
}

/// A forked process says `start` again, in a file of its own: what stands before it is its
/// parent's.
void note(const Line& line, ObservedProcess& process) {
  constexpr std::int64_t kMostRanks = 1 << 24;
  const std::string kind = text(line, "kind");
  process.rank = static_cast<int>(std::min(whole(line, "rank").value_or(0), kMostRanks));
  process.world = static_cast<int>(std::min(whole(line, "world").value_or(1), kMostRanks));
  const std::string source = text(line, "rank_source");
  process.placed = !source.empty() && source != "none";
  process.pid = whole(line, "pid").value_or(0);
  note_versions(line, process);
  if (kind == "step") {
    note_step(step_of(line), process);
    process.memory_source = text(line, "memory_source");
    if (const std::string name = text(line, "device_name"); !name.empty()) {
      process.device_name = name;
    }
  } else if (kind == "oom") {
    process.full.push_back(full_of(line));
  } else if (kind == "end") {
    process.end = text(line, "reason");
    process.error = one_line(text(line, "error"));
    process.ended_unix_s = number(line, "time").value_or(0);
    const auto finite = line.find("finite");
    process.lost = finite != line.end() && finite->is_boolean() && !finite->get<bool>();
  }
}

bool says_something(const ObservedProcess& process) {
  return !process.steps.empty() || !process.full.empty();
}

/// Last begun, last in the list: by the time of the file's last change, then by its process.
std::vector<fs::path> report_files(const std::string& folder) {
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, fs::path>> found;
  for (fs::directory_iterator each(folder, error), end; !error && each != end;
       each.increment(error)) {
    const bool regular = each->is_regular_file(error);
    if (!regular || each->path().extension() != ".jsonl") continue;
    found.emplace_back(each->last_write_time(error), each->path());
  }
  if (error) throw WorldError("cannot read " + folder + ": " + error.message());
  std::sort(found.begin(), found.end());
  std::vector<fs::path> files;
  for (auto& [time, path] : found) files.push_back(std::move(path));
  return files;
}

}  // namespace

ObservedProcess observed_process(std::string_view text) {
  ObservedProcess process;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const Line line = Line::parse(text.substr(0, end), nullptr, false);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.is_object() && line.value("schema", Line()) == kSchema) {
      note(line, process);
    } else if (end > 0) {
      ++process.unread_lines;
    }
  }
  return process;
}

std::vector<ObservedProcess> read_observed(const std::string& folder) {
  std::map<int, ObservedProcess> by_rank;
  for (const fs::path& file : report_files(folder)) {
    ObservedProcess process = observed_process(read_given_file(file.string(), kMostBytes));
    if (says_something(process)) by_rank.insert_or_assign(process.rank, std::move(process));
  }
  std::vector<ObservedProcess> processes;
  for (auto& [rank, process] : by_rank) processes.push_back(std::move(process));
  return processes;
}

WatchedProcesses watched_processes(const std::string& folder) {
  WatchedProcesses watched;
  for (const fs::path& file : report_files(folder)) {
    ++watched.all;
    watched.placed += observed_process(read_given_file(file.string(), kMostBytes)).placed ? 1 : 0;
  }
  return watched;
}

}  // namespace planwright::launcher
