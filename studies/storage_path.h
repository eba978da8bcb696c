#pragma once

#include <string>
#include <string_view>

#include "studies/store.h"

namespace planwright::studies {

/// An InputError that says what is wrong with the path, where SQLite would only say that it cannot
/// open it: a missing or unwritable folder, a folder in place of a file, a read-only file system.
void require_path(const std::string& path, OpenMode mode);

/// The name of the network file system with this `statfs` magic; "" if it is none of them.
std::string_view network_name(unsigned long magic);

/// The network file system that a file at `path` lies on or would lie on; "" if it is local.
std::string network_file_system(const std::string& path);

}  // namespace planwright::studies
