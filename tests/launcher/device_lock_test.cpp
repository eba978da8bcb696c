#include "launcher/device_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <cstdlib>

#include "launcher/probe_runner.h"
#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

/// The lock's file in a folder of the test's own.
class DeviceLockProcess : public ::testing::Test {
 protected:
  DeviceLockProcess() { setenv("XDG_RUNTIME_DIR", folder_.path().c_str(), 1); }
  ~DeviceLockProcess() override { unsetenv("XDG_RUNTIME_DIR"); }

  /// What one hears who asks once and gives up; empty: it had the lock.
  std::string busy_with() {
    std::string heard;
    try {
      DeviceLock::wait([] { return true; }, [&](const std::string& holder) { heard = holder; });
    } catch (const Interrupted&) {
    }
    return heard;
  }

  testing::TestFolder folder_;
};

TEST_F(DeviceLockProcess, IsHeldByOneAtATime) {
  {
    const DeviceLock lock = DeviceLock::wait({}, {});
    EXPECT_TRUE(lock.held());
    EXPECT_EQ(busy_with(), "process " + std::to_string(getpid()));
  }
  EXPECT_EQ(busy_with(), "") << "given back";
}

TEST_F(DeviceLockProcess, GoesWithItsProcess) {
  const pid_t child = fork();
  if (child == 0) {
    const DeviceLock lock = DeviceLock::wait({}, {});
    kill(getpid(), SIGKILL);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(busy_with(), "");
}

TEST_F(DeviceLockProcess, NobodyWaitsWhereItCannotBeMade) {
  setenv("XDG_RUNTIME_DIR", (folder_ / "none").c_str(), 1);
  EXPECT_FALSE(DeviceLock::wait({}, {}).held());
}

}  // namespace
}  // namespace planwright::launcher
