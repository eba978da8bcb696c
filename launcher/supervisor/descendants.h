#pragma once

#include <sys/types.h>

#include <vector>

namespace planwright::supervisor {

/// Every process below `ancestor`, zombies left out, by the parents that /proc shows. With a child
/// subreaper as ancestor none escapes by outliving its parent or by a session of its own.
std::vector<pid_t> descendants(pid_t ancestor);

/// SIGKILLs the descendants of this process again and again, and reaps them, until there is none
/// or `timeout_s` is over. Returns how many are left: those in uninterruptible sleep.
int kill_descendants(double timeout_s);

}  // namespace planwright::supervisor
