#pragma once

#include <cstdint>
#include <optional>

#include "cli/settings.h"
#include "estimator/spec/target_traits.h"
#include "estimator/spec/workload.h"

namespace planwright::cli {

/// What is taken for a key that is not given; one that has nothing here is required.
struct JobDefaults {
  std::optional<std::int64_t> seq, global_batch;
};

/// [job].
Workload read_workload(const Settings& settings, const TargetTraits& traits,
                       const JobDefaults& defaults);

}  // namespace planwright::cli
