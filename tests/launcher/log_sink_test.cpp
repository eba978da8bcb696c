#include "launcher/supervisor/log_sink.h"

#include <gtest/gtest.h>

#include "estimator/spec/text_file.h"
#include "launcher/group_protocol.h"
#include "tests/support/test_folder.h"

namespace planwright::supervisor {
namespace {

using launcher::kLogHead;
using launcher::kLogTail;
using testing::TestFolder;

TEST(LogSink, KeepsAShortLogWhole) {
  const TestFolder folder;
  LogSink sink(folder / "log");
  sink.append("one\n");
  sink.append("two\n");
  sink.finish();
  EXPECT_EQ(sink.tail(), "one\ntwo\n");
  EXPECT_EQ(read_file(folder / "log"), "one\ntwo\n");
}

TEST(LogSink, KeepsBeginningAndEndOfALongLog) {
  const TestFolder folder;
  LogSink sink(folder / "log");
  sink.append("BEGIN");
  for (int i = 0; i < 5000; ++i) sink.append(std::string(1000, 'x'));
  sink.append("END");
  sink.finish();

  EXPECT_EQ(sink.tail().size(), kLogTail);
  EXPECT_TRUE(sink.tail().ends_with("xEND"));
  const std::string file = read_file(folder / "log");
  EXPECT_TRUE(file.starts_with("BEGINx"));
  EXPECT_TRUE(file.ends_with("xEND"));
  const std::size_t left_out = 5 + 5000 * 1000 + 3 - kLogHead - kLogTail;
  EXPECT_NE(file.find("[" + std::to_string(left_out) + " bytes left out]"), std::string::npos);
  EXPECT_LT(file.size(), kLogHead + kLogTail + 100);
}

TEST(LogSink, RepeatsNothingWhereBeginningAndEndMeet) {
  const TestFolder folder;
  const std::string text = std::string(kLogHead, 'a') + std::string(100, 'b');
  LogSink sink(folder / "log");
  sink.append(text);
  sink.finish();
  EXPECT_TRUE(read_file(folder / "log") == text);
}

TEST(LogSink, KeepsTheEndWhereNoFileCanBeWritten) {
  for (const char* path : {"", "/nonexistent/folder/log", "/dev/full"}) {
    LogSink sink(path);
    sink.append("text");
    sink.finish();
    EXPECT_EQ(sink.tail(), "text") << path;
  }
}

}  // namespace
}  // namespace planwright::supervisor
