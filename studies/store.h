#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "estimator/spec/json.h"
#include "estimator/spec/problem.h"
#include "estimator/spec/trial.h"

namespace planwright::studies {

class Database;

enum class OpenMode {
  create,      ///< made if it is not there
  read_write,  ///< must be there
  read_only,   ///< must be there; no statement of ours can change it
};

/// The world as the store sees it; tests replace parts of it.
struct StoreOptions {
  int busy_timeout_ms = 30000;  ///< how long another's write lock is waited for
  std::function<double()> now;  ///< unix seconds; empty: the system clock
  /// Name of the network file system that a path lies on, "" if it is local; empty: ask statfs.
  std::function<std::string(const std::string& path)> network_file_system;
};

struct StudyRow {
  std::int64_t id = 0;
  std::string name;
};

/// One study, as opened: the handle that the other calls take.
struct StudyRef {
  std::int64_t id = 0;
  std::string name;
  std::string problem_hash;
  Problem problem;
};

/// One SQLite file of studies in Optuna's schema. Every write is a transaction of its own that is
/// on disk when the call returns: whatever happens afterwards, also SIGKILL or a power cut, keeps
/// it.
///
/// While a file is open for writing it is in WAL mode; the last connection that closes puts it back
/// to a rollback journal, so that a file at rest is a single file. On a network file system it
/// stays with a rollback journal, and `warnings` says so. Not for use by two threads at once.
///
/// InputError: the path cannot be used, or the file is not one of ours (studies/schema.h).
/// WorldError: the disk is full, another process holds the lock too long, the file is damaged. It
/// names the file; what was finished before is kept.
class Store {
 public:
  static Store open(const std::string& path, OpenMode mode, StoreOptions options = {});
  Store(Store&&) noexcept;
  Store& operator=(Store&&) noexcept;
  ~Store();

  /// Makes the study or resumes it. A study holds one Problem: another one is an InputError that
  /// names the first differing field and both values, and so is a study that somebody else made.
  StudyRef open_study(const std::string& name, const Problem& problem);

  /// Keeps what the study's plans are started with (kept_command), in the place of what was kept.
  void keep_command(const StudyRef& study, const Json& command);

  /// First commit: a RUNNING row with parameters, prediction and owner. Returns its number, which
  /// counts from 0 without gap or duplicate however many processes claim.
  std::int64_t claim(const StudyRef& study, const Proposal& proposal);

  /// Second commit: state, value, constraints, and the Trial itself. `trial.number` is what `claim`
  /// returned. Returns the number it is stored under: a new one if the row was finished by somebody
  /// else meanwhile (Optuna's heartbeat check, a hand in the dashboard), so that no result is lost.
  std::int64_t finish(const StudyRef& study, const Trial& trial);

  /// The running row becomes FAIL without a result: its probe was cut short. `cut_short` tells such
  /// trials from those that failed by themselves.
  void abandon(const StudyRef& study, std::int64_t number);

  /// Renews the heartbeat of a running trial, for Optuna workers that look at it and for other
  /// hosts.
  void beat(const StudyRef& study, std::int64_t number);

  /// RUNNING rows whose owner is gone become FAIL; returns how many. Gone: the process is not there
  /// any more on this host, or another host's heartbeat is a day old. Rows without an owner of ours
  /// (an Optuna worker's) are left alone.
  int fail_dead_owners(const StudyRef& study);

  /// The finished trials that Planwright stored, by number. A row that cannot be read is skipped
  /// and named in `warnings`.
  std::vector<Trial> trials(const StudyRef& study);

  /// The same over all studies of the file with that problem, by study and number.
  std::vector<Trial> trials_of_problem(const std::string& hash);

  const std::string& path() const;
  /// Read-only and without tables yet: there is no study to ask for.
  bool empty() const { return empty_; }
  /// What the user should know, oldest first; each is returned once.
  std::vector<std::string> take_warnings();

  /// The connection, for queries in this folder (studies/history.cpp).
  Database& database() const;

 private:
  explicit Store(std::unique_ptr<Database> database, StoreOptions options);

  std::vector<Trial> trials_of(const std::vector<StudyRow>& studies);

  std::unique_ptr<Database> database_;
  StoreOptions options_;
  bool empty_ = false;
  std::vector<std::string> warnings_;
};

/// Whether the probe's process ended, or was told to, before the probe did: such a trial says
/// nothing about its candidate.
bool cut_short(const Trial& trial);

/// The finished trials that were not cut short, by number.
std::vector<Trial> conclusive_trials(Store& store, const StudyRef& study);

}  // namespace planwright::studies
