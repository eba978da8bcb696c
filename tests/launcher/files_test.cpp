#include "launcher/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>

#include "tests/support/test_folder.h"

namespace planwright::launcher {
namespace {

using testing::TestFolder;

void make_old(const std::string& path) {
  const timespec long_ago[2] = {{1000, 0}, {1000, 0}};
  utimensat(AT_FDCWD, path.c_str(), long_ago, AT_SYMLINK_NOFOLLOW);
}

TEST(WorkFolder, IsGoneWithEverythingInItAtTheEnd) {
  const TestFolder root;
  std::string path;
  {
    const WorkFolder folder(root.path());
    path = folder.path();
    write_file(path + "/file", "text");
    EXPECT_TRUE(std::filesystem::exists(path));
  }
  EXPECT_EQ(root.entries(), 0);
}

TEST(WorkFolder, RemovesWhatAKilledProcessLeftAndNothingElse) {
  const TestFolder root;
  const std::string left = root.put("planwright-leftxx/request.json", "");
  const std::string fresh = root.put("planwright-freshx/request.json", "");
  const std::string other = root.put("planwright-of-somebody/file", "");
  const WorkFolder in_use(root.path());
  std::filesystem::create_directory(root / "outside");
  std::filesystem::create_symlink(root / "outside", root / "planwright-linkxx");
  for (const std::string& path : {root / "planwright-leftxx", root / "planwright-of-somebody",
                                  root / "planwright-linkxx", in_use.path()}) {
    make_old(path);
  }
  const WorkFolder next(root.path());
  EXPECT_FALSE(std::filesystem::exists(left));
  EXPECT_TRUE(std::filesystem::exists(fresh)) << "its owner may be about to lock it";
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::exists(in_use.path())) << "its owner lives";
  EXPECT_TRUE(std::filesystem::exists(root / "planwright-linkxx"));
  EXPECT_TRUE(std::filesystem::exists(root / "outside"));
}

TEST(Files, ThatArePrograms) {
  const TestFolder folder;
  const mode_t usual = umask(022);
  replace_file(folder / "text", "a");
  replace_file(folder / "program", "a");
  replace_file(folder / "program", "b", kProgramMode);
  umask(usual);
  using std::filesystem::status;
  EXPECT_EQ(static_cast<int>(status(folder / "text").permissions()), 0644);
  EXPECT_EQ(static_cast<int>(status(folder / "program").permissions()), 0755) << "also a later one";
}

}  // namespace
}  // namespace planwright::launcher
