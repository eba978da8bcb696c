#pragma once

#include <compare>
#include <string>

#include "estimator/spec/problem.h"

namespace planwright::targets {

/// The first two numbers of a framework's version: of "0.19.2" 0 and 19. What is not there is 0.
struct Version {
  int major = 0;
  int minor = 0;
  auto operator<=>(const Version&) const = default;
};

/// That of the plan's target.
Version target_version(const Problem& problem);

}  // namespace planwright::targets
