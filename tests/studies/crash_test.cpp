#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <set>

#include "sample.h"
#include "studies/database.h"
#include "studies/history.h"
#include "studies/store.h"

namespace planwright::studies {
namespace {

using namespace testing;  // NOLINT: helpers of this folder

using Rows = std::vector<std::string>;

void say(int out, std::int64_t number) {
  const std::string line = std::to_string(number) + "\n";
  if (::write(out, line.data(), line.size()) < 0) ::_exit(2);
}

std::set<std::int64_t> numbers_in(const std::string& text) {
  std::set<std::int64_t> numbers;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    if (end == std::string::npos) break;
    numbers.insert(std::stoll(text.substr(at, end - at)));
    at = end + 1;
  }
  return numbers;
}

std::set<std::int64_t> finished_in(const std::string& path) {
  Store store = Store::open(path, OpenMode::read_only, fixed_clock());
  std::set<std::int64_t> numbers;
  for (const Trial& trial : store.trials_of_problem(problem_hash(sample_problem()))) {
    if (trial.outcome.measurement() != nullptr) numbers.insert(trial.number);
  }
  return numbers;
}

/// Resumes as the next tuner does, and checks what must hold after any death.
void expect_sound(const std::string& path, const std::set<std::int64_t>& reported) {
  {
    Store store = Store::open(path, OpenMode::create, fixed_clock());
    const StudyRef study = store.open_study("night", sample_problem());
    store.fail_dead_owners(study);
  }
  EXPECT_EQ(rows(path, "PRAGMA integrity_check"), Rows{"ok"});
  EXPECT_EQ(rows(path, "SELECT count(*) FROM trials WHERE state = 'RUNNING'"), Rows{"0"});
  EXPECT_EQ(rows(path,
                 "SELECT count(*), count(DISTINCT number), coalesce(max(number), -1) + 1 "
                 "- count(*) FROM trials"),
            rows(path, "SELECT count(*), count(*), 0 FROM trials"))
      << "a number is missing or there twice";
  const auto kept = finished_in(path);
  for (const std::int64_t number : reported) EXPECT_TRUE(kept.contains(number)) << number;
}

int changes_left = 0;

void die_at_change(void*, int, const char*, const char*, sqlite3_int64) {
  if (--changes_left == 0) ::raise(SIGKILL);
}

int die_at_commit(void*) {
  if (--changes_left == 0) ::raise(SIGKILL);
  return 0;
}

/// One trial, ended by SIGKILL at its `steps`-th row change or commit.
void trial_until(const std::string& path, int steps, int out) {
  Store store = Store::open(path, OpenMode::create, fixed_clock());
  const StudyRef study = store.open_study("night", sample_problem());
  sqlite3* handle = store.database().handle().getHandle();
  changes_left = steps;
  sqlite3_update_hook(handle, die_at_change, nullptr);
  sqlite3_commit_hook(handle, die_at_commit, nullptr);
  say(out, add_trial(store, study));
}

TEST(AKilledWriterProcess, LeavesASoundFileWhereverItDies) {
  Folder folder;
  const std::string path = folder.file("study.db");
  std::set<std::int64_t> reported;
  int deaths = 0;
  for (int steps = 1; reported.empty(); ++steps) {
    Child child([&](int out) { trial_until(path, steps, out); });
    const ChildEnd end = child.wait();
    reported.merge(numbers_in(end.text));
    deaths += end.code == -SIGKILL ? 1 : 0;
    ASSERT_TRUE(end.code == -SIGKILL || end.code == 0) << end.text;
    expect_sound(path, reported);
  }
  EXPECT_GT(deaths, 25) << "it died before each row of both commits";
}

TEST(AKilledWriterProcess, LosesNothingThatItFinishedAtRandomMoments) {
  Folder folder;
  const std::string path = folder.file("study.db");
  std::set<std::int64_t> reported;
  for (const std::size_t bytes : {1, 8, 20, 33, 47}) {
    Child child([&](int out) {
      Store store = Store::open(path, OpenMode::create, fixed_clock());
      const StudyRef study = store.open_study("night", sample_problem());
      for (;;) say(out, add_trial(store, study));
    });
    child.await_output(bytes);
    child.kill();
    const ChildEnd end = child.wait();
    EXPECT_EQ(end.code, -SIGKILL) << end.text;
    reported.merge(numbers_in(end.text));
    expect_sound(path, reported);
  }
  EXPECT_GT(reported.size(), 20U);
}

TEST(AKilledWriterProcess, DoesNotTakeTheTrialsOfALivingOneWithIt) {
  Folder folder;
  const std::string path = folder.file("study.db");
  Store living = Store::open(path, OpenMode::create, fixed_clock());
  const StudyRef study = living.open_study("night", sample_problem());
  EXPECT_EQ(living.claim(study, sample_proposal()), 0);
  Child child([&](int) {
    Store store = Store::open(path, OpenMode::create, fixed_clock());
    store.claim(store.open_study("night", sample_problem()), sample_proposal());
    ::raise(SIGKILL);
  });
  EXPECT_EQ(child.wait().code, -SIGKILL);
  EXPECT_EQ(living.fail_dead_owners(study), 1);
  EXPECT_EQ(rows(path, "SELECT number, state FROM trials"), (Rows{"0|RUNNING", "1|FAIL"}));
}

TEST(ConcurrentWritersProcess, ShareOneNewFileWithoutLosingOrDoublingANumber) {
  constexpr std::size_t kWriters = 3;
  constexpr std::size_t kTrials = 15;
  Folder folder;
  const std::string path = folder.file("study.db");
  std::vector<std::unique_ptr<Child>> writers;
  writers.reserve(kWriters);
  for (std::size_t i = 0; i < kWriters; ++i) {
    writers.push_back(std::make_unique<Child>([&](int out) {
      Store store = Store::open(path, OpenMode::create);
      const StudyRef study = store.open_study("night", sample_problem());
      for (std::size_t trial = 0; trial < kTrials; ++trial) say(out, add_trial(store, study));
    }));
  }
  std::set<std::int64_t> numbers;
  for (const auto& writer : writers) {
    const ChildEnd end = writer->wait();
    EXPECT_EQ(end.code, 0) << end.text;
    const auto own = numbers_in(end.text);
    EXPECT_EQ(own.size(), kTrials);
    numbers.insert(own.begin(), own.end());
  }
  EXPECT_EQ(numbers.size(), kWriters * kTrials);
  EXPECT_EQ(*numbers.rbegin(), std::int64_t{kWriters * kTrials} - 1);
  expect_sound(path, numbers);
}

TEST(ConcurrentWritersProcess, MayMakeTheSameFileAtTheSameMoment) {
  Folder folder;
  for (int round = 0; round < 5; ++round) {
    const std::string path = folder.file(std::to_string(round) + ".db");
    constexpr int kMakers = 4;
    std::vector<std::unique_ptr<Child>> makers;
    makers.reserve(kMakers);
    for (int i = 0; i < kMakers; ++i) {
      makers.push_back(std::make_unique<Child>(
          [&](int) { Store::open(path, OpenMode::create).open_study("night", sample_problem()); }));
    }
    for (const auto& maker : makers) {
      const ChildEnd end = maker->wait();
      EXPECT_EQ(end.code, 0) << end.text;
    }
    EXPECT_EQ(rows(path, "SELECT count(*) FROM studies"), Rows{"1"});
    EXPECT_EQ(rows(path, "SELECT count(*) FROM alembic_version"), Rows{"1"});
  }
}

}  // namespace
}  // namespace planwright::studies
