#include "launcher/command_end.h"

#include <fmt/core.h>

#include <csignal>

namespace planwright::launcher {

const RankFate* fate_of_command(const CommandEnd& end) {
  return end.run.ranks.empty() ? nullptr : &end.run.ranks.front();
}

bool ended_well(const CommandEnd& end) {
  const RankFate* fate = fate_of_command(end);
  return fate != nullptr && fate->not_started.empty() && fate->signal == 0 && fate->code == 0 &&
         end.run.stopped_by == StoppedBy::nobody && !end.run.supervisor_lost;
}

std::string how_it_ended(int code) {
  if (code >= 0) return fmt::format("ended with exit code {}", code);
  return fmt::format("was {} by signal {}", code == -SIGKILL ? "killed" : "ended", -code);
}

std::string how_it_ended(const RankFate& fate) {
  return how_it_ended(fate.signal != 0 ? -fate.signal : fate.code);
}

}  // namespace planwright::launcher
