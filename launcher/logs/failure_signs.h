#pragma once

#include <span>
#include <string_view>

#include "estimator/spec/outcome.h"

namespace planwright::launcher {

enum class SignWeight {
  own,          ///< this rank failed by itself
  consequence,  ///< another rank or the launcher made it fail
  any_level,    ///< own, and also where the line calls itself a warning
  at_start,     ///< own, before a step was timed; later it follows from something else
};

/// A pattern of log_format.h by whose presence a rank's failure is known, whatever the framework.
struct FailureSign {
  OutcomeKind kind = OutcomeKind::crashed;
  std::string_view pattern;
  SignWeight weight = SignWeight::own;
  bool killed = false;  ///< by SIGKILL; whether for want of host memory, only the kernel knows
};

/// The first that is found in a line counts.
std::span<const FailureSign> failure_signs();

/// What the line of an out-of-memory error says about the device, in all the wordings of torch:
/// {oom_requested} {oom_allocated} {oom_reserved} {oom_unallocated} {oom_free} {oom_capacity}
/// {oom_device}.
std::span<const std::string_view> out_of_memory_details();

}  // namespace planwright::launcher
