#pragma once

#include <string>
#include <string_view>

namespace planwright {

/// SHA-256 of `data` as 64 lower-case hex digits. Source: FIPS 180-4.
std::string sha256_hex(std::string_view data);

}  // namespace planwright
