#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"
#include "studies/store.h"

/// Files, trials and child processes for the tests of studies.
namespace planwright::studies::testing {

/// A folder of its own, which everybody may enter, removed at the end.
class Folder {
 public:
  Folder();
  ~Folder();
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }
  /// A writable copy of a fixture of tests/data/optuna with its journal files; returns its path.
  std::string fixture(const std::string& name) const;

 private:
  std::string path_;
};

/// What the clock of `fixed_clock` shows, and the same as it is stored.
inline constexpr double kNow = 1750000000.25;
inline constexpr const char* kNowText = "2025-06-15 15:06:40.250000";

/// Options with a clock that stands at `kNow`, and short patience with locks.
StoreOptions fixed_clock();

Problem sample_problem(std::int64_t global_batch = 8);

/// With an Estimate and a reason; `step` varies micro-batch and zero.
Proposal sample_proposal(int step = 0);

/// How the proposal may have ended, each with every field filled in.
Outcome measured(double tokens_per_second, Bytes allocated);
Outcome ran_full();
Outcome failed(OutcomeKind kind);

/// The Trial that follows from a claimed proposal.
Trial sample_trial(const StudyRef& study, std::int64_t number, const Proposal& proposal,
                   Outcome outcome);

/// Claims and finishes one trial with a fitting measurement; returns its number.
std::int64_t add_trial(Store& store, const StudyRef& study, double tokens_per_second = 100,
                       int step = 0);

/// Each row as its columns joined by "|", read by a connection of its own.
std::vector<std::string> rows(const std::string& path, const std::string& sql);
void run_sql(const std::string& path, const std::string& sql);

/// The text of the InputError or WorldError that `work` throws; a test failure if it throws none.
std::string input_error(const std::function<void()>& work);
std::string world_error(const std::function<void()>& work);

/// How a child process ended: its exit code, or minus the signal; and what it wrote.
struct ChildEnd {
  int code = 0;
  std::string text;
};

/// A child process that runs `work(out)`, `out` being a descriptor that the parent reads. The text
/// of an exception is written there and ends the child with code 1.
class Child {
 public:
  explicit Child(const std::function<void(int out)>& work);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits for `size` bytes of its output, or its end.
  void await_output(std::size_t size);
  void kill();
  ChildEnd wait();

 private:
  int pid_ = -1;
  int out_ = -1;
  std::string text_;
};

}  // namespace planwright::studies::testing
