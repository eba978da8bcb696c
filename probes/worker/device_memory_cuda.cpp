#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <unordered_map>

#include "probes/worker/device_memory.h"

namespace planwright::worker {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
using allocator::TraceEntry;

struct Block {
  Bytes bytes;  ///< as the tensor asked for them; the allocator rounds up
  Account account;
};

/// Books over the caching allocator's trace, whose callbacks come under the allocator's lock.
class TracedMemory {
 public:
  void on_event(const TraceEntry& entry) {
    const std::lock_guard lock(mutex_);
    if (entry.action_ == TraceEntry::ALLOC) {
      const Block block{Bytes{static_cast<std::int64_t>(entry.size_)}, current_account()};
      blocks_[entry.addr_] = block;
      books_.add(block.account, block.bytes, current_phase());
    } else if (entry.action_ == TraceEntry::FREE_COMPLETED) {
      const auto found = blocks_.find(entry.addr_);
      if (found == blocks_.end()) return;
      books_.remove(found->second.account, found->second.bytes);
      blocks_.erase(found);
    }
  }

  void on_out_of_memory(std::size_t requested, std::size_t capacity, Bytes reserved) {
    const std::lock_guard lock(mutex_);
    last_failure_ = {.requested = Bytes{static_cast<std::int64_t>(requested)},
                     .allocated = books_.allocated(),
                     .capacity = Bytes{static_cast<std::int64_t>(capacity)},
                     .reserved = reserved,
                     .account = current_account(),
                     .phase = current_phase()};
  }

  void book_over(const void* data, Account account) {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<std::size_t>(data));
    if (found == blocks_.end()) return;
    books_.move(found->second.account, account, found->second.bytes, current_phase());
    found->second.account = account;
  }

  Ledger live() const {
    const std::lock_guard lock(mutex_);
    return books_.live();
  }
  MemoryPeaks peaks() const {
    const std::lock_guard lock(mutex_);
    return books_.peaks();
  }
  OutOfMemory last_failure() const {
    const std::lock_guard lock(mutex_);
    return last_failure_;
  }
  void reset_peaks() {
    const std::lock_guard lock(mutex_);
    books_.reset_peaks(current_phase());
  }
  void begin_timeline() {
    const std::lock_guard lock(mutex_);
    books_.begin_timeline();
  }
  std::vector<probes::MemoryEvent> take_timeline() {
    const std::lock_guard lock(mutex_);
    return books_.take_timeline();
  }

 private:
  mutable std::mutex mutex_;
  MemoryBooks books_;
  std::unordered_map<std::size_t, Block> blocks_;
  OutOfMemory last_failure_;
};

/// Never destroyed: the allocator outlives main.
TracedMemory& memory() {
  static auto* const instance = new TracedMemory;
  return *instance;
}

Bytes reserved_now(c10::DeviceIndex device) {
  constexpr std::size_t kAllPools = 0;
  return Bytes{allocator::getDeviceStats(device).reserved_bytes[kAllPools].current};
}

}  // namespace

void install_device_memory() {
  at::globalContext().lazyInitDevice(at::kCUDA);
  allocator::attachAllocatorTraceTracker([](const TraceEntry& entry) { memory().on_event(entry); });
  allocator::attachOutOfMemoryObserver(
      [](std::int64_t device, std::size_t requested, std::size_t total, std::size_t) {
        memory().on_out_of_memory(requested, total,
                                  reserved_now(static_cast<c10::DeviceIndex>(device)));
      });
}

/// The matrix library's workspace is a tensor, made anew by the next product, and segments that are
/// not in use count as reserved.
void forget_earlier_jobs() {
  at::cuda::clearCublasWorkspaces();
  allocator::emptyCache();
}

void set_memory_budget(std::optional<Bytes> budget) {
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  const double fraction = budget ? *budget / Bytes{static_cast<std::int64_t>(total)} : 1.0;
  allocator::setMemoryFraction(std::min(fraction, 1.0), c10::cuda::current_device());
}

Ledger live_memory() { return memory().live(); }
MemoryPeaks memory_peaks() { return memory().peaks(); }
void begin_timeline() { memory().begin_timeline(); }
std::vector<probes::MemoryEvent> take_timeline() { return memory().take_timeline(); }

void reset_memory_peaks() {
  memory().reset_peaks();
  allocator::resetPeakStats(c10::cuda::current_device());
}

void rebook(const at::Tensor& tensor, Account account) {
  memory().book_over(tensor.storage().data(), account);
}

/// Within a job the caching allocator gives nothing back to the device, so what is in use at the
/// end is the peak.
MemoryOutside memory_outside() {
  constexpr std::size_t kAllPools = 0;
  const auto stats = allocator::getDeviceStats(c10::cuda::current_device());
  std::size_t free = 0, total = 0;
  C10_CUDA_CHECK(cudaMemGetInfo(&free, &total));
  return {.reserved_peak = Bytes{stats.reserved_bytes[kAllPools].peak},
          .device_peak = Bytes{static_cast<std::int64_t>(total - free)},
          .rss_peak = std::nullopt};
}

std::optional<OutOfMemory> out_of_memory(const std::exception& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return memory().last_failure();
  return std::nullopt;
}

}  // namespace planwright::worker
