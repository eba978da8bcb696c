#pragma once

#include <cstddef>
#include <string_view>

namespace planwright {

/// How many bytes of UTF-8 begin `text`, which is not empty; 0 if none do.
std::size_t utf8_length(std::string_view text);

/// Whether all of it is UTF-8 without control characters, so that a terminal shows it as it is.
bool is_printable(std::string_view text);

}  // namespace planwright
