#pragma once

namespace planwright::supervisor {

/// Starts the ranks of the GroupSpec that comes on `in`, sends GroupEvents to `out` and returns
/// when nothing of them runs any more (launcher/group_protocol.h). The calling process becomes the
/// reaper of all that descends from it. If `in` or the reader of `out` goes away, everything is
/// killed at once. Returns the exit code: 0, or 2 if the specification cannot be read.
int supervise(int in, int out);

}  // namespace planwright::supervisor
