#include "cli/progress.h"

#include <fmt/core.h>

#include <cstdio>
#include <utility>

namespace planwright::cli {

std::string progress_text(const launcher::ProgressEvent& event, int steps) {
  int begun = 0;  // steps before this one
  std::string what = event.text;
  if (std::sscanf(event.text.c_str(), "step %d", &begun) == 1) {
    what = fmt::format("step {} of {}", begun + 1, steps);
  }
  return fmt::format("{}, {:.1f} s", what, event.elapsed_s);
}

ProbeProgress::ProbeProgress(const Console& console, std::string title, int steps)
    : console_(console), title_(std::move(title)), steps_(steps) {
  console_.live(fmt::format("{}: starting", title_));
}

ProbeProgress::~ProbeProgress() { console_.live(""); }

void ProbeProgress::show(const launcher::ProgressEvent& event) {
  if (event.rank == 0) console_.live(fmt::format("{}: {}", title_, progress_text(event, steps_)));
}

}  // namespace planwright::cli
