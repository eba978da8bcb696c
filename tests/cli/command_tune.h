#pragma once

#include <gtest/gtest.h>

#include <string>

#include "command.h"

/// Studies of the target command. A script of the shell stands for the training script: what it
/// says of itself is the measurement, so that nothing of it depends on a clock.
namespace planwright::testing {

/// A step takes 10 ms and one for each sample, and 96 MiB and 8 for each. Every run is noted.
inline constexpr const char* kScript = R"(#!/bin/sh
echo "$@" >> runs
printf '{"step_time_s": %d.%03d, "peak_bytes": %d}' \
  $((($1 + 10) / 1000)) $((($1 + 10) % 1000)) $(((96 + 8 * $1) * 1048576)) > "$PLANWRIGHT_REPORT"
)";

class CommandTuneProcess : public ::testing::Test {
 protected:
  CommandTuneProcess() { script_ = folder_.put_script("train", kScript); }

  CommandResult run(const std::string& line) const {
    return run_command({folder_.path()}, words(line));
  }

  const TestFolder folder_;
  std::string script_;
};

inline const std::string kStudy =
    "tune --target command --device cpu --devices 1 --threads 1 --no-benchmark --json ";

/// The same in a file, with one probe; what follows is of [launch].
inline const std::string kStudyFile = R"([cluster]
device = "cpu"
devices = 1
threads = 1
[job]
target = "command"
[budget]
no_benchmark = true
probes = 1
[launch]
)";

}  // namespace planwright::testing
