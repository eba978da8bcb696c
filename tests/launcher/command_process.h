#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "launcher/command_probe.h"
#include "tests/support/fault.h"
#include "tests/support/processes.h"
#include "tests/support/test_folder.h"

/// Scripts of the shell stand for training scripts; where the observer is meant to have looked on,
/// they write its lines.
namespace planwright::launcher {

/// `line KIND FACTS` is the observer's line of rank $rank; `step N TIME PEAK` one of a step.
inline const char* const kAsObserved =
    "rank=0\n"
    "line() { echo '{\"schema\":\"planwright.observer/1\",\"kind\":\"'$1'\",\"pid\":'$$',\"rank\":"
    "'$rank',\"world\":2,'\"$2\"'}' >> \"$PLANWRIGHT_OBSERVER/rank-$rank-1.jsonl\"; }\n"
    "step() { line step '\"step\":'$1',\"time_s\":'$2',\"memory_source\":\"counting_allocator\","
    "\"memory\":{\"current\":100,\"peak\":'$3'},\"rss\":5000,\"device\":\"cpu\","
    "\"accounts\":{\"parameters\":{\"cpu\":40},\"gradients\":null,\"optimizer\":{}},"
    "\"versions\":{\"torch\":\"2.11.0\"}'; "
    "}\n";

class CommandProcess : public ::testing::Test {
 protected:
  CommandProcess() {
    folder_.put("temp/.keep", "");
    options_.supervisor = std::string(PLANWRIGHT_BIN_DIR) + "/planwright-supervisor";
    options_.temp_root = folder_ / "temp";
    options_.environment["PLANWRIGHT_TEST"] = folder_.path();
    options_.watchdog_s = 20;
    job_.ranks = 1;
    job_.scope = {.kind = ScopeKind::full, .warmup = 1, .steps = 2};
    job_.tokens = 600;
    job_.observer = "/observer's folder";
  }
  void TearDown() override {
    EXPECT_TRUE(testing::processes_marked(folder_.path()).empty()) << "processes are left";
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_ / "temp"), {}), 1)
        << "files are left";
  }

  CommandOutcome run(const std::string& body) {
    job_.argv = {folder_.put_script("train", kAsObserved + body), "--micro-batch", "4"};
    return run_command(job_, options_);
  }
  std::string failure(const std::string& body, OutcomeKind kind) {
    const CommandOutcome ended = run(body);
    EXPECT_EQ(ended.outcome.kind(), kind);
    EXPECT_FALSE(ended.witness);
    const Failure* failed = ended.outcome.failure();
    return failed == nullptr ? "" : failed->detail;
  }

  testing::TestFolder folder_;
  RunOptions options_;
  CommandJob job_;
};

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace planwright::launcher
