#pragma once

#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_spec.h"

namespace planwright::targets::torchtitan {

/// Modules of each virtual stage, in the order of the model, the last being norm and `head`:
/// torchtitan's `module_fqns_per_model_part`. Its own split counts the embedding and the head as a
/// layer each and would differ from the plan's.
std::vector<std::vector<std::string>> modules_by_stage(const ModelSpec& model,
                                                       const Candidate& candidate,
                                                       const std::string& head);

/// torchtitan's name of the schedule.
std::string schedule_name(Schedule schedule);

}  // namespace planwright::targets::torchtitan
