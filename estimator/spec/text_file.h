#pragma once

#include <cstddef>
#include <string>

namespace planwright {

/// The whole of a file; a WorldError that names it, with what the system said, if it cannot be
/// read.
std::string read_file(const std::string& path);

/// Ten times the longest configuration that is published; a parsed one takes twenty times its
/// bytes.
constexpr std::size_t kMostTextBytes = std::size_t{16} << 20;

/// The same of a file that a person named: an InputError with its path if it is not there, is not a
/// regular file, or is longer than `most` bytes.
std::string read_given_file(const std::string& path, std::size_t most = kMostTextBytes);

}  // namespace planwright
