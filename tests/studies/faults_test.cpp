#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "estimator/spec/error.h"
#include "estimator/spec/json.h"
#include "sample.h"
#include "studies/history.h"
#include "studies/store.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

using Rows = std::vector<std::string>;

constexpr unsigned kNobody = 65534;

/// Runs `work` in a child that is not root, and returns the text that it throws.
std::string refused_to_a_user(const std::function<void()>& work) {
  Child child([&](int) {
    if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(3);
    work();
  });
  const ChildEnd end = child.wait();
  EXPECT_EQ(end.code, 1) << end.text;
  return end.text;
}

struct BadPath {
  const char* name;
  std::function<std::string(const Folder&)> path;
  OpenMode mode;
  const char* message;
};

TEST(UnusablePaths, AreRefusedWithTheReason) {
  const auto of = [](const char* name) {
    return [name](const Folder& folder) { return folder.file(name); };
  };
  for (const BadPath& each : std::vector<BadPath>{
           {"empty", [](const Folder&) { return ""; }, OpenMode::create,
            "an empty path is no file"},
           {"no folder", of("no/study.db"), OpenMode::create, "there is no folder "},
           {"no file", of("no.db"), OpenMode::read_write, "there is no such file"},
           {"no file to read", of("no.db"), OpenMode::read_only, "there is no such file"},
           {"a folder", of("."), OpenMode::create, "is a folder, not a file"},
           {"a device", [](const Folder&) { return "/dev/null"; }, OpenMode::create,
            "is not a regular file"},
           {"below a file", [](const Folder& f) { return f.fixture("text.db") + "/study.db"; },
            OpenMode::create, "Not a directory"},
       }) {
    Folder folder;
    const std::string path = each.path(folder);
    const auto message = input_error([&] { Store::open(path, each.mode, fixed_clock()); });
    EXPECT_NE(message.find(each.message), std::string::npos) << each.name << ": " << message;
    EXPECT_EQ(message.find(path), 0U) << message;
  }
}

TEST(UnusablePathsProcess, AreThoseThatTheUserMayNotUse) {
  struct Case {
    mode_t folder_mode, file_mode;
    OpenMode mode;
    const char* message;
  };
  for (const Case& each : {
           Case{0555, 0, OpenMode::create, "its folder "},
           Case{0777, 0444, OpenMode::create, "may not be written to (Permission denied)"},
           Case{0555, 0666, OpenMode::read_write, "its folder "},
           Case{0777, 0200, OpenMode::read_only, "may not be read (Permission denied)"},
       }) {
    Folder folder;
    const std::string path = folder.file("study.db");
    if (each.file_mode != 0) {
      std::filesystem::rename(folder.fixture("plan-5.0.0.db"), path);
      ::chmod(path.c_str(), each.file_mode);
    }
    ::chmod(folder.path().c_str(), each.folder_mode);
    const auto text = refused_to_a_user([&] { Store::open(path, each.mode, fixed_clock()); });
    EXPECT_NE(text.find(each.message), std::string::npos) << text;
    ::chmod(folder.path().c_str(), 0755);
  }
}

TEST(ReadersProcess, NeedNoRightToWrite) {
  for (const char* fixture : {"plan-5.0.0.db", "wal at rest"}) {
    Folder folder;
    std::string path = folder.file("plan-5.0.0.db");
    folder.fixture("plan-5.0.0.db");
    if (fixture == std::string("wal at rest")) run_sql(path, "PRAGMA journal_mode = WAL");
    ::chmod(path.c_str(), 0444);
    ::chmod(folder.path().c_str(), 0555);
    Child child([&](int out) {
      if (::geteuid() == 0 && (::setgid(kNobody) != 0 || ::setuid(kNobody) != 0)) ::_exit(3);
      Store store = Store::open(path, OpenMode::read_only, fixed_clock());
      const std::string count = std::to_string(list_studies(store)[0].trials.at("COMPLETE"));
      if (::write(out, count.data(), count.size()) < 0) ::_exit(2);
    });
    const ChildEnd end = child.wait();
    EXPECT_EQ(end.code, 0) << fixture;
    EXPECT_EQ(end.text, "20") << fixture;
    ::chmod(folder.path().c_str(), 0755);
  }
}

/// Adds trials until the disk is full, then says what was thrown and how many were finished.
std::string fill(const std::string& path) {
  Store store = Store::open(path, OpenMode::create, fixed_clock());
  const StudyRef study = store.open_study("night", sample_problem());
  for (int finished = 0;; ++finished) {
    try {
      add_trial(store, study, 100, finished);
    } catch (const WorldError& error) {
      return Json{{"finished", finished}, {"error", error.what()}}.dump();
    }
  }
}

void write_all(int out, const std::string& text) {
  if (::write(out, text.data(), text.size()) < 0) ::_exit(2);
}

void expect_kept(const std::string& path, const ChildEnd& end) {
  ASSERT_EQ(end.code, 0) << end.text;
  const Json said = Json::parse(end.text);
  const int finished = said["finished"];
  EXPECT_GT(finished, 2);
  const std::string error = said["error"];
  EXPECT_EQ(error.find(path + ": "), 0U) << error;
  EXPECT_NE(error.find("everything finished before is kept"), std::string::npos) << error;

  Store store = Store::open(path, OpenMode::create, fixed_clock());
  const StudyRef study = store.open_study("night", sample_problem());
  EXPECT_EQ(rows(path, "PRAGMA integrity_check"), Rows{"ok"});
  EXPECT_EQ(static_cast<int>(store.trials(study).size()), finished);
  store.fail_dead_owners(study);
  EXPECT_GE(add_trial(store, study), finished) << "and it goes on once there is room";
}

TEST(AFullDiskProcess, KeepsWhatWasFinishedUnderAFileSizeLimit) {
  Folder folder;
  const std::string path = folder.file("study.db");
  Child child([&](int out) {
    ::signal(SIGXFSZ, SIG_IGN);
    constexpr rlim_t kHalfMiB = 524288;
    const rlimit limit{kHalfMiB, kHalfMiB};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(3);
    write_all(out, fill(path));
  });
  expect_kept(path, child.wait());
}

TEST(AFullDiskProcess, KeepsWhatWasFinishedOnASmallFileSystem) {
  Folder folder;
  const std::string path = folder.file("study.db");
  Child child([&](int out) {
    // A mount of this child's own, gone with it.
    if (::unshare(CLONE_NEWNS) != 0) ::_exit(77);
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(77);
    const std::string small = folder.file("small");
    std::filesystem::create_directory(small);
    if (::mount("tmpfs", small.c_str(), "tmpfs", 0, "size=640k") != 0) ::_exit(77);
    const std::string text = fill(small + "/study.db");
    // Closing could not empty the log, for want of room: it still belongs to the file.
    for (const char* part : {"/study.db", "/study.db-wal"}) {
      if (!std::filesystem::exists(small + part)) continue;
      std::filesystem::copy_file(small + part, folder.path() + part);
    }
    Json said = Json::parse(text);
    const std::string error = said["error"];
    said["error"] = path + error.substr(error.find(": "));
    write_all(out, said.dump());
  });
  const ChildEnd end = child.wait();
  if (end.code == 77) GTEST_SKIP() << "needs the right to mount";
  EXPECT_NE(end.text.find("the disk is full"), std::string::npos) << end.text;
  expect_kept(path, end);
}

TEST(AMovedFile, IsNotWrittenToWhereNobodyWouldFindIt) {
  for (const bool deleted : {true, false}) {
    Folder folder;
    const std::string path = folder.file("study.db");
    Store store = Store::open(path, OpenMode::create, fixed_clock());
    const StudyRef study = store.open_study("night", sample_problem());
    if (deleted) {
      std::filesystem::remove(path);
    } else {
      std::filesystem::rename(path, folder.file("moved.db"));
    }
    const auto message = world_error([&] { store.claim(study, sample_proposal()); });
    EXPECT_NE(message.find(path + ": was moved or deleted"), std::string::npos) << message;
  }
}

/// Holds the write lock until it is killed.
void hold_lock(const std::string& path, int out) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE);
  database.exec("BEGIN IMMEDIATE");
  write_all(out, "locked");
  ::pause();
}

TEST(ALockedFileProcess, IsReportedAfterAWhileAndThenUsable) {
  Folder folder;
  const std::string path = folder.file("study.db");
  StoreOptions options = fixed_clock();
  options.busy_timeout_ms = 20;
  Store store = Store::open(path, OpenMode::create, options);
  const StudyRef study = store.open_study("night", sample_problem());
  Child holder([&](int out) { hold_lock(path, out); });
  holder.await_output(1);
  const auto message = world_error([&] { store.claim(study, sample_proposal()); });
  EXPECT_NE(message.find(path + ": another process has kept it locked for too long"),
            std::string::npos)
      << message;
  holder.kill();
  holder.wait();
  EXPECT_EQ(add_trial(store, study), 0);
}

}  // namespace
}  // namespace planwright::studies
