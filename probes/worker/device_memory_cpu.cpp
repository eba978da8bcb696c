#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/alloc_cpu.h>

#include <cstring>
#include <fstream>
#include <mutex>
#include <new>
#include <string>

#include "probes/worker/device_memory.h"

namespace planwright::worker {
namespace {

/// Stands right before a tensor's data, in space of its own that the books do not count. One cache
/// line, so that the data keeps the allocator's alignment.
struct alignas(c10::gAlignment) BlockHeader {
  Bytes bytes;
  Account account;
};

/// libtorch's CPU allocator with books and a budget.
class BookedAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t n) override;
  c10::DeleterFnPtr raw_deleter() const override { return &BookedAllocator::release; }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    std::memcpy(to, from, n);
  }

  void book_over(void* data, Account account);
  void set_budget(std::optional<Bytes> budget);
  Ledger live() const;
  MemoryPeaks peaks() const;
  void reset_peaks();
  void begin_timeline();
  std::vector<probes::MemoryEvent> take_timeline();

 private:
  static void release(void* data);
  static BlockHeader& header(void* data) { return static_cast<BlockHeader*>(data)[-1]; }
  void book(Account account, Bytes bytes);

  mutable std::mutex mutex_;
  MemoryBooks books_;
  std::optional<Bytes> budget_;
};

/// Never destroyed: tensors of static objects are released after main has returned.
BookedAllocator& allocator() {
  static auto* const instance = new BookedAllocator;
  return *instance;
}

c10::DataPtr BookedAllocator::allocate(std::size_t n) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (n == 0) return {nullptr, nullptr, &release, cpu};
  const Account account = current_account();
  const Bytes bytes{static_cast<std::int64_t>(n)};
  book(account, bytes);
  void* base = nullptr;
  try {
    base = c10::alloc_cpu(n + sizeof(BlockHeader));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    books_.remove(account, bytes);
    throw;
  }
  void* data = new (base) BlockHeader{bytes, account} + 1;
  return {data, data, &release, cpu};
}

void BookedAllocator::book(Account account, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  if (budget_ && books_.allocated() + bytes > *budget_) {
    throw DeviceOutOfMemory({.requested = bytes,
                             .allocated = books_.allocated(),
                             .capacity = *budget_,
                             .reserved = std::nullopt,
                             .account = account,
                             .phase = current_phase()});
  }
  books_.add(account, bytes, current_phase());
}

void BookedAllocator::release(void* data) {
  if (data == nullptr) return;
  BlockHeader& block = header(data);
  {
    BookedAllocator& self = allocator();
    const std::lock_guard lock(self.mutex_);
    self.books_.remove(block.account, block.bytes);
  }
  c10::free_cpu(&block);
}

void BookedAllocator::book_over(void* data, Account account) {
  if (data == nullptr) return;
  BlockHeader& block = header(data);
  const std::lock_guard lock(mutex_);
  books_.move(block.account, account, block.bytes, current_phase());
  block.account = account;
}

void BookedAllocator::set_budget(std::optional<Bytes> budget) {
  const std::lock_guard lock(mutex_);
  budget_ = budget;
}

Ledger BookedAllocator::live() const {
  const std::lock_guard lock(mutex_);
  return books_.live();
}

MemoryPeaks BookedAllocator::peaks() const {
  const std::lock_guard lock(mutex_);
  return books_.peaks();
}

void BookedAllocator::reset_peaks() {
  const std::lock_guard lock(mutex_);
  books_.reset_peaks(current_phase());
}

void BookedAllocator::begin_timeline() {
  const std::lock_guard lock(mutex_);
  books_.begin_timeline();
}

std::vector<probes::MemoryEvent> BookedAllocator::take_timeline() {
  const std::lock_guard lock(mutex_);
  return books_.take_timeline();
}

}  // namespace

void install_device_memory() {
  constexpr std::uint8_t kAboveDefault = 1;
  c10::SetCPUAllocator(&allocator(), kAboveDefault);
}

/// Nothing is kept.
void forget_earlier_jobs() {}

void set_memory_budget(std::optional<Bytes> budget) { allocator().set_budget(budget); }
Ledger live_memory() { return allocator().live(); }
MemoryPeaks memory_peaks() { return allocator().peaks(); }
void reset_memory_peaks() { allocator().reset_peaks(); }
void begin_timeline() { allocator().begin_timeline(); }
std::vector<probes::MemoryEvent> take_timeline() { return allocator().take_timeline(); }

void rebook(const at::Tensor& tensor, Account account) {
  allocator().book_over(tensor.storage().data_ptr().get_context(), account);
}

MemoryOutside memory_outside() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) {
      return {.reserved_peak = {},
              .device_peak = {},
              .rss_peak = Bytes{std::stoll(line.substr(6)) * 1024}};
    }
  }
  return {};
}

std::optional<OutOfMemory> out_of_memory(const std::exception& error) {
  const auto* full = dynamic_cast<const DeviceOutOfMemory*>(&error);
  return full ? std::optional(full->facts()) : std::nullopt;
}

}  // namespace planwright::worker
