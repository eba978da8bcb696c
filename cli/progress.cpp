#include "cli/progress.h"

#include <fmt/core.h>

#include <utility>

namespace planwright::cli {

ProbeProgress::ProbeProgress(const Console& console, std::string title, int steps)
    : console_(console), title_(std::move(title)), steps_(steps) {
  console_.live(fmt::format("{}: starting", title_));
}

ProbeProgress::~ProbeProgress() { console_.live(""); }

void ProbeProgress::show(const launcher::ProgressEvent& event) {
  console_.live(fmt::format("{}: {} of {}, {:.1f} s", title_, event.text, steps_, event.elapsed_s));
}

}  // namespace planwright::cli
