#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/units.h"

/// What the observer (launcher/observer) leaves of a run that it watched from inside: in one folder
/// a file per process, in it a JSON object per line, in the order of time. A process may end at any
/// byte, and a script may write whatever it likes beside them: a line that cannot be read is
/// counted and passed over.
namespace planwright::launcher {

/// Of one device or, where there is none, of the process's tensors. Absent: not told.
struct ObservedMemory {
  std::optional<Bytes> current, peak;
  std::optional<Bytes> reserved_peak, device_used, device_total;  ///< accelerators
  bool operator==(const ObservedMemory&) const = default;
};

/// Bytes of tensors on the step's device that have one of these uses, this rank's part alone.
struct ObservedAccounts {
  std::optional<Bytes> parameters, gradients, optimizer, communication, buffers;
  bool operator==(const ObservedAccounts&) const = default;
};

struct ObservedStep {
  std::int64_t step = 0;                      ///< optimizer steps, from 1
  std::optional<double> time_s;               ///< since the step before; none of the first
  std::optional<std::int64_t> micro_batches;  ///< backward passes since the step before
  bool skipped = false;                       ///< a gradient scaler made it an empty one
  ObservedMemory memory;                      ///< the peak is of this step
  std::optional<Bytes> rss;
  std::optional<ObservedAccounts> accounts;  ///< of a few steps only
};

/// Memory that could not be had.
struct ObservedFull {
  std::int64_t step = 0;  ///< the one that was not finished
  bool caught = false;    ///< and the run went on
  bool on_cpu = false;
  std::optional<Bytes> requested, allocated, reserved, capacity;
  std::string message;
};

/// One process. Nothing is known of how it ended if `end` is empty.
struct ObservedProcess {
  int rank = 0;
  int world = 1;
  bool placed = false;  ///< by a launcher or torch.distributed; else rank and world are guesses
  std::int64_t pid = 0;
  std::string memory_source;  ///< "counting_allocator", "process", "cuda_caching_allocator"
  std::string device_name;
  std::map<std::string, std::string> versions;  ///< by framework
  std::vector<ObservedStep> steps;
  std::vector<ObservedFull> full;
  bool lost = false;  ///< its parameters were finite, and were not after the last step
  std::string end;    ///< "steps" as many as were wanted; "exit"; "error"
  std::string error;  ///< the exception that nobody caught
  double ended_unix_s = 0;
  std::int64_t unread_lines = 0;
};

/// Processes in which Python loaded the observer and torch, launchers written in it among them.
struct WatchedProcesses {
  int all = 0;
  int placed = 0;  ///< and which have a rank
};

/// A process's file, or what there is of it.
ObservedProcess observed_process(std::string_view text);

/// Of every process that made a step or ran out of memory, by rank; of two processes of one rank,
/// as where a launcher started it anew, the one that began last. Other files are passed over; a
/// WorldError if the folder cannot be read.
std::vector<ObservedProcess> read_observed(const std::string& folder);

/// Of every file, whatever else is in it.
WatchedProcesses watched_processes(const std::string& folder);

}  // namespace planwright::launcher
