#include "sample.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "estimator/spec/error.h"
#include "tests/support/fake_traits.h"

namespace planwright::studies::testing {

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "planwright-studies-").string();
  name.append(6, 'X');  // what mkdtemp replaces
  if (::mkdtemp(name.data()) == nullptr) throw WorldError("no temporary folder " + name);
  path_ = name;
  ::chmod(path_.c_str(), 0755);
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string Folder::fixture(const std::string& name) const {
  const std::string from = std::string(PLANWRIGHT_SOURCE_DIR) + "/tests/data/optuna/" + name;
  for (const char* suffix : {"", "-wal", "-journal"}) {
    if (!std::filesystem::exists(from + suffix)) continue;
    std::filesystem::copy_file(from + suffix, file(name) + suffix);
    ::chmod((file(name) + suffix).c_str(), 0644);
  }
  return file(name);
}

StoreOptions fixed_clock() {
  StoreOptions options;
  options.busy_timeout_ms = 5000;
  options.now = [] { return kNow; };
  return options;
}

Problem sample_problem(std::int64_t global_batch) {
  Problem problem =
      planwright::testing::fake_problem(planwright::testing::tiny_llama(), 2, Precision::fp32);
  problem.workload.global_batch = global_batch;
  return problem;
}

namespace {

Ledger sample_ledger(Bytes activations) {
  Ledger ledger;
  ledger[Account::parameters] = Bytes{1000};
  ledger[Account::optimizer] = Bytes{2000};
  ledger[Account::activations] = activations;
  return ledger;
}

Estimate sample_estimate(int step) {
  Estimate estimate;
  estimate.reason = "";
  estimate.parameters = {10000, 10000, 10000};
  estimate.stages = {
      {0, Phase::backward, sample_ledger(Bytes{5000 + step}), Bytes{4000}, std::nullopt, {}}};
  estimate.loaded = sample_ledger(Bytes{0});
  estimate.time = {Seconds{0.1}, Seconds{}, Seconds{0.02}, Seconds{}, Seconds{0.003}, Seconds{}};
  estimate.step_time = estimate.time.total();
  estimate.tokens_per_second_per_device = 1.0 / 3.0 + step;
  estimate.memory_rel = 0.01;
  estimate.time_rel = 0.3;
  estimate.fit_probability = 0.875;
  estimate.calibration = "0123456789ab";
  return estimate;
}

}  // namespace

Proposal sample_proposal(int step) {
  Proposal proposal;
  proposal.candidate = planwright::testing::data_parallel(2, step % 2, 1 + step % 4);
  proposal.estimate = sample_estimate(step);
  proposal.why = "highest expected improvement";
  return proposal;
}

Outcome measured(double tokens_per_second, Bytes allocated) {
  Measurement measurement;
  for (int rank = 0; rank < 2; ++rank) {
    RankMeasurement seen;
    seen.rank = rank;
    seen.peak = sample_ledger(allocated - Bytes{3000 + rank});
    seen.tensors = seen.peak;
    seen.loaded = sample_ledger(Bytes{0});
    seen.peak_phase = seen.tensors_phase = Phase::backward;
    seen.rss_peak = Bytes{123456789};
    seen.steps_s = {0.125, 0.1, 0.15};
    seen.startup_s = 1.5;
    measurement.ranks.push_back(seen);
  }
  measurement.steps_s = {0.125, 0.1, 0.15};
  measurement.step_time_s = 0.125;
  measurement.tokens_per_second_per_device = tokens_per_second;
  measurement.losses = {4.25, 4.0, 3.75};
  return {measurement, {{"torch", "2.11.0"}, {"host", "a"}}};
}

Outcome ran_full() {
  OutOfMemory full;
  full.requested = Bytes{300};
  full.allocated = Bytes{900};
  full.capacity = Bytes{1000};
  full.account = Account::logits;
  full.phase = Phase::loss;
  full.rank = 1;
  return {full, {}};
}

Outcome failed(OutcomeKind kind) {
  return {Failure{kind, "rank 1 was ended by SIGKILL", "last line\n", 1}, {}};
}

Trial sample_trial(const StudyRef& study, std::int64_t number, const Proposal& proposal,
                   Outcome outcome) {
  Trial trial;
  trial.number = number;
  trial.problem_hash = study.problem_hash;
  trial.candidate = proposal.candidate;
  trial.scope = proposal.scope;
  trial.estimate = proposal.estimate;
  trial.why = proposal.why;
  trial.outcome = std::move(outcome);
  trial.started_unix_s = kNow;
  trial.finished_unix_s = kNow + 2.5;
  return trial;
}

std::int64_t add_trial(Store& store, const StudyRef& study, double tokens_per_second, int step) {
  const Proposal proposal = sample_proposal(step);
  const std::int64_t number = store.claim(study, proposal);
  return store.finish(
      study, sample_trial(study, number, proposal, measured(tokens_per_second, Bytes{8000})));
}

std::vector<std::string> rows(const std::string& path, const std::string& sql) {
  SQLite::Database database(path, SQLite::OPEN_READWRITE, 5000);
  SQLite::Statement statement(database, sql);
  std::vector<std::string> found;
  while (statement.executeStep()) {
    std::string row;
    for (int i = 0; i < statement.getColumnCount(); ++i) {
      const SQLite::Column column = statement.getColumn(i);
      row += (i == 0 ? "" : "|") + (column.isNull() ? "NULL" : column.getString());
    }
    found.push_back(row);
  }
  return found;
}

void run_sql(const std::string& path, const std::string& sql) {
  SQLite::Database(path, SQLite::OPEN_READWRITE, 5000).exec(sql);
}

namespace {

template <class Error>
std::string error_of(const std::function<void()>& work, const char* kind) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "expected " << kind << ", got: " << error.what();
    return "";
  }
  ADD_FAILURE() << "expected " << kind << ", nothing was thrown";
  return "";
}

}  // namespace

std::string input_error(const std::function<void()>& work) {
  return error_of<InputError>(work, "an InputError");
}

std::string world_error(const std::function<void()>& work) {
  return error_of<WorldError>(work, "a WorldError");
}

Child::Child(const std::function<void(int out)>& work) {
  std::array<int, 2> pipe{};
  if (::pipe(pipe.data()) != 0) throw WorldError("no pipe");
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(pipe[0]);
    int code = 0;
    try {
      work(pipe[1]);
    } catch (const std::exception& error) {
      const std::string text = error.what();
      code = ::write(pipe[1], text.data(), text.size()) < 0 ? 2 : 1;
    }
    ::_exit(code);
  }
  ::close(pipe[1]);
  out_ = pipe[0];
}

Child::~Child() {
  if (pid_ > 0) {
    kill();
    wait();
  }
}

void Child::await_output(std::size_t size) {
  std::array<char, 4096> buffer{};
  while (text_.size() < size) {
    const ssize_t got = ::read(out_, buffer.data(), buffer.size());
    if (got <= 0) return;
    text_.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

void Child::kill() { ::kill(pid_, SIGKILL); }

ChildEnd Child::wait() {
  await_output(static_cast<std::size_t>(-1));
  int status = 0;
  ::waitpid(pid_, &status, 0);
  ::close(out_);
  pid_ = -1;
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text_};
}

}  // namespace planwright::studies::testing
