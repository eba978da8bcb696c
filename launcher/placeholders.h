#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/target_traits.h"

/// {micro_batch} in a user's command line or file. A placeholder is a name of small letters and
/// underscores in braces; all other braces stand for themselves, and {{name}} for {name}.
namespace planwright::launcher {

/// Their names, each once, in the order in which they stand there.
std::vector<std::string> placeholders_in(std::string_view text);

/// `text` with every placeholder filled; std::out_of_range names one that has no value.
std::string filled(std::string_view text, const NamedValues& values);

}  // namespace planwright::launcher
