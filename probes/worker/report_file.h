#pragma once

#include <string>

namespace planwright::worker {

/// Writes `text` to a temporary name, flushes it to the disk and renames it to `path`, so that a
/// file of that name is always whole. Throws std::runtime_error.
void write_whole(const std::string& path, const std::string& text);

}  // namespace planwright::worker
