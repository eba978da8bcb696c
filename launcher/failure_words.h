#pragma once

#include <optional>
#include <string>

#include "launcher/command_end.h"

/// Why a command with a bad exit failed, in the words of the rank whose end no other explains: what
/// a rank says of a peer that left it yields to any reason that the peer has.
namespace planwright::launcher {

/// The first exception that the observer saw and that no peer's end explains; else empty.
std::string own_error(const CommandEnd& end);

/// own_error; else the script's own words in the log, of which `cause` is the one that explains the
/// others; else how the rank ended that the launcher's report blames.
std::string failure_words(const CommandEnd& end, const std::optional<LoggedCause>& cause);

/// "rank 3: CUDA out of memory".
std::string told(const LoggedCause& cause);

}  // namespace planwright::launcher
