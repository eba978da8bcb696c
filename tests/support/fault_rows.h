#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/outcome.h"
#include "launcher/probe_runner.h"
#include "probes/protocol/probe_request.h"

/// What can go wrong with a probe, as a table: what is injected, and what has to be said of it.
namespace planwright::testing {

/// How far a rank has come when a signal meets it.
enum class Moment {
  start,      ///< its process is there
  meeting,    ///< the first rank has written to the rendezvous
  loaded,     ///< model and states are made
  step,       ///< in the third step
  reduction,  ///< behind the last micro-batch of the third step
  report,     ///< it has opened its report and cannot finish it
};

constexpr int kSupervisor = -1;

struct SignalFault {
  int signal = 0;
  std::vector<int> ranks;  ///< or kSupervisor
  Moment moment = Moment::step;
};

struct ExpectedEnd {
  OutcomeKind kind = OutcomeKind::ok;
  std::optional<int> rank{};
  std::optional<Phase> phase{};      ///< out of memory
  std::optional<Account> account{};  ///< out of memory
  std::string detail{};              ///< part of a failure's text
  /// Out of memory in a product's scratch in forward is right too: how much that is, is for the
  /// CPU.
  bool or_scratch = false;
};

/// A fault is a signal, or a shell script that every rank is before it becomes the worker, or a job
/// or limits that cannot go well. Nothing in the product knows of it.
struct FaultRow {
  std::string name;   ///< an identifier
  std::string fault;  ///< for people
  std::string where;
  ExpectedEnd expected;
  int ranks = 2;
  int steps = 3;
  std::optional<SignalFault> signal{};
  /// Sees $worker, $rank, $folder (the run's), $request, and $cgroup. It goes on as the worker
  /// unless it ends itself.
  std::string script{};
  std::function<void(probes::TrainJob&)> job{};
  std::function<void(launcher::RunOptions&)> options{};
  bool tuner_dies = false;   ///< by SIGKILL, in the third step; there is no outcome then
  std::string memory_max{};  ///< of a cgroup for the ranks; the row is skipped where none can be
  bool starves_sanitizers = false;  ///< of address space or descriptors, which they need more of
};

const std::vector<FaultRow>& fault_rows();

/// A text as an identifier: a row's name.
std::string fault_name(std::string text);

/// The job of a probe that goes well, on `ranks` ranks.
probes::TrainJob healthy_job(int ranks, int steps);

}  // namespace planwright::testing
