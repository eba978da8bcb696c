#include "studies/owner.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace planwright::studies {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  std::array<char, 64> target{};
  const ssize_t size = ::readlink(path, target.data(), target.size());
  return size < 0 ? "" : std::string(target.data(), static_cast<std::size_t>(size));
}

std::string host_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  return name.data();
}

struct ProcessState {
  char state = 'X';
  std::int64_t started = 0;
};

/// Fields 3 and 22 of /proc/PID/stat. The name in field 2 may hold spaces and parentheses, so
/// fields are counted from the last one. Source: proc(5).
std::optional<ProcessState> process_state(std::int64_t pid) {
  const std::string line = first_line("/proc/" + std::to_string(pid) + "/stat");
  const std::size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream rest(line.substr(name_end + 1));
  const std::vector<std::string> fields{std::istream_iterator<std::string>(rest), {}};
  constexpr std::size_t kStarted = 22 - 3;
  if (fields.size() <= kStarted) return std::nullopt;
  return ProcessState{fields[0].front(), std::stoll(fields[kStarted])};
}

}  // namespace

Owner this_process() {
  Owner owner;
  owner.host = host_name();
  owner.boot = first_line("/proc/sys/kernel/random/boot_id");
  owner.pid_space = link_target("/proc/self/ns/pid");
  owner.pid = ::getpid();
  if (const auto state = process_state(owner.pid)) owner.started = state->started;
  return owner;
}

OwnerState owner_state(const Owner& owner, const Owner& here) {
  if (owner.host != here.host) return OwnerState::elsewhere;
  if (owner.boot != here.boot) return OwnerState::gone;
  if (owner.pid_space != here.pid_space) return OwnerState::elsewhere;
  const auto process = process_state(owner.pid);
  const bool ended = !process || process->state == 'Z' || process->state == 'X';
  return ended || process->started != owner.started ? OwnerState::gone : OwnerState::alive;
}

Json to_json(const Owner& owner) {
  return {{"host", owner.host},
          {"boot", owner.boot},
          {"pid_space", owner.pid_space},
          {"pid", owner.pid},
          {"started", owner.started}};
}

std::optional<Owner> owner_from_json(const Json& json) {
  try {
    return Owner{json.at("host"), json.at("boot"), json.at("pid_space"), json.at("pid"),
                 json.at("started")};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace planwright::studies
