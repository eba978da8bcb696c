#pragma once

#include <string>

#include "estimator/spec/workload.h"

namespace planwright::targets {

/// `bfloat16` and the like: a type as an attribute of torch.
std::string torch_name(DType type);

}  // namespace planwright::targets
