#pragma once

#include <string>

#include "cli/console.h"
#include "launcher/probe_runner.h"

namespace planwright::cli {

/// "step 2 of 4, 1.8 s" of a rank's sign of life; steps count from 1 for people.
std::string progress_text(const launcher::ProgressEvent& event, int steps);

/// The live line of a running probe on a terminal: "probe 3: step 2 of 4, 1.8 s". Nothing
/// elsewhere, where each probe's end is a line of its own.
class ProbeProgress {
 public:
  /// `steps` are those of warm-up and measurement together.
  ProbeProgress(const Console& console, std::string title, int steps);
  ~ProbeProgress();
  ProbeProgress(const ProbeProgress&) = delete;
  ProbeProgress& operator=(const ProbeProgress&) = delete;

  void show(const launcher::ProgressEvent& event);

 private:
  const Console& console_;
  std::string title_;
  int steps_;
};

}  // namespace planwright::cli
