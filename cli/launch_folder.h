#pragma once

namespace planwright::cli {

/// Where `emit` writes the files of a plan if nobody says, and where the lines that `tune` prints
/// have them: never among the user's own.
constexpr const char* kLaunchFolder = "launch";

}  // namespace planwright::cli
