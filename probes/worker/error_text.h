#pragma once

#include <exception>
#include <string>

namespace planwright::worker {

/// What an exception says, without the stack that libtorch appends to its own.
std::string error_text(const std::exception& error);

}  // namespace planwright::worker
