#pragma once

#include <cstdint>
#include <optional>

#include "cli/settings.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/workload.h"

namespace planwright::cli {

/// [job]. Without a global batch it is `default_batch`, where there is one.
Workload read_workload(const Settings& settings, const TargetTraits& traits,
                       std::optional<std::int64_t> default_batch);

}  // namespace planwright::cli
