#pragma once

#include <string>
#include <vector>

#include "launcher/target.h"

/// What an emitted file was derived from.
namespace planwright::targets {

/// For comments at a file's head: version, target, model and devices, plan, problem, evidence.
std::vector<std::string> origin_lines(const launcher::EmitRequest& request);

/// The same as JSON, with the files and warnings of `config`: for formats without comments.
std::string origin_json(const launcher::EmitRequest& request, const launcher::LaunchConfig& config);

}  // namespace planwright::targets
