#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "estimator/spec/json.h"

namespace planwright::studies {

/// The process that runs a trial, named so that a later process with the same id is not taken for
/// it.
struct Owner {
  std::string host;
  std::string boot;       ///< the kernel's id of this boot
  std::string pid_space;  ///< the namespace that `pid` counts in: differs between containers
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks after boot, field 22 of /proc/PID/stat
  bool operator==(const Owner&) const = default;
};

Owner this_process();

enum class OwnerState {
  alive,
  gone,       ///< ended (or a zombie), or its host has started again since
  elsewhere,  ///< on another host or in another container: cannot be seen from here
};

/// Seen from `here`, a process of this machine.
OwnerState owner_state(const Owner& owner, const Owner& here);

Json to_json(const Owner& owner);
/// nullopt for anything that `to_json` did not write.
std::optional<Owner> owner_from_json(const Json& json);

}  // namespace planwright::studies
