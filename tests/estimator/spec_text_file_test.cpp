#include <gtest/gtest.h>

#include "estimator/spec/text_file.h"
#include "tests/support/fault.h"
#include "tests/support/test_folder.h"

namespace planwright {
namespace {

using testing::fault_of;

class TextFile : public ::testing::Test {
 protected:
  const testing::TestFolder folder_;
  const std::string path_ = folder_.put("file", std::string(70000, 'x') + "end");
};

TEST_F(TextFile, IsReadAsAWhole) {
  EXPECT_EQ(read_file(path_), std::string(70000, 'x') + "end");
  EXPECT_EQ(read_given_file(path_, 70003), read_file(path_));
}

TEST_F(TextFile, IsRefusedWithItsPathAndWhatItIsInstead) {
  const std::pair<std::string, const char*> rows[] = {
      {path_ + ".none", "there is no such file"},
      {::testing::TempDir(), "is a folder, not a file"},
      {"/dev/zero", "is not a regular file"},
      {std::string(5000, 'x'), "cannot be looked at"},
  };
  for (const auto& [path, rule] : rows) {
    const InputFault fault = fault_of([&, path = path] { read_given_file(path); });
    EXPECT_EQ(fault.file, path);
    EXPECT_EQ(fault.rule.find(rule), 0u) << fault.rule;
  }
  EXPECT_EQ(fault_of([&] { read_given_file(path_, 65536); }).rule, "is longer than 0 MiB");
}

TEST_F(TextFile, ThatCannotBeReadIsTheWorldsFault) {
  for (const auto read : {+[](const std::string& path) { return read_file(path); },
                          +[](const std::string& path) { return read_given_file(path); }}) {
    try {
      read("/proc/self/mem");
      ADD_FAILURE() << "no error";
    } catch (const WorldError& error) {
      EXPECT_STREQ(error.what(), "cannot read /proc/self/mem: Input/output error");
    }
  }
}

}  // namespace
}  // namespace planwright
