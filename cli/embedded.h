#pragma once

#include <vector>

#include "estimator/embedded.h"

namespace planwright::cli {

/// The files of cli/data, compiled in by cmake/EmbedData.cmake.
using estimator::EmbeddedFile;
const std::vector<EmbeddedFile>& embedded_files();

}  // namespace planwright::cli
