#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "estimator/spec/outcome.h"
#include "probes/worker/memory_books.h"

/// The books of device memory: every byte that a tensor of the device takes, by account. On a CPU
/// an own allocator keeps them (device_memory_cpu.cpp), on CUDA the caching allocator's trace does
/// (device_memory_cuda.cpp). What a byte is booked to is said by scopes, which hold for the whole
/// process, because an operator may allocate from threads of its own.
namespace planwright::worker {

/// Call once, before the first tensor of the device.
void install_device_memory();

/// Gives back what the allocator and the libraries keep of earlier jobs, so that a job finds the
/// device as a fresh process does.
void forget_earlier_jobs();

/// Allocations that would bring the sum of all accounts above `budget` throw from here on.
void set_memory_budget(std::optional<Bytes> budget);

/// A budget for as long as it lives, and none afterwards.
class BudgetScope {
 public:
  explicit BudgetScope(std::optional<Bytes> budget) { set_memory_budget(budget); }
  ~BudgetScope() { set_memory_budget(std::nullopt); }
  BudgetScope(const BudgetScope&) = delete;
  BudgetScope& operator=(const BudgetScope&) = delete;
};

Ledger live_memory();
MemoryPeaks memory_peaks();
void reset_memory_peaks();
/// From here on every allocation of a tensor is kept, until they are taken.
void begin_timeline();
std::vector<probes::MemoryEvent> take_timeline();

/// Books the tensor's whole storage over to `account`. The storage is the device allocator's.
void rebook(const at::Tensor& tensor, Account account);

/// What the books do not hold.
struct MemoryOutside {
  std::optional<Bytes> reserved_peak, device_peak;  ///< accelerators
  std::optional<Bytes> rss_peak;                    ///< CPU: of the process's whole life
};
MemoryOutside memory_outside();

/// The device ran full: the budget of a CPU device.
class DeviceOutOfMemory : public std::runtime_error {
 public:
  explicit DeviceOutOfMemory(const OutOfMemory& facts);
  const OutOfMemory& facts() const { return facts_; }

 private:
  OutOfMemory facts_;
};

/// The facts if `error` says that the device ran full, with `rank` left 0.
std::optional<OutOfMemory> out_of_memory(const std::exception& error);

Account current_account();  ///< activations outside every scope
Phase current_phase();      ///< load outside every scope

/// Allocations within are booked to `account`.
class AccountScope {
 public:
  explicit AccountScope(Account account);
  ~AccountScope();
  AccountScope(const AccountScope&) = delete;
  AccountScope& operator=(const AccountScope&) = delete;

 private:
  Account before_;
};

/// Around an operator whose allocations are its own: freed when it returns, or results that are
/// then rebooked.
struct WorkspaceScope : AccountScope {
  WorkspaceScope() : AccountScope(Account::workspace) {}
};

/// Peaks within belong to `phase`.
class PhaseScope {
 public:
  explicit PhaseScope(Phase phase);
  ~PhaseScope();
  PhaseScope(const PhaseScope&) = delete;
  PhaseScope& operator=(const PhaseScope&) = delete;

 private:
  Phase before_;
};

}  // namespace planwright::worker
