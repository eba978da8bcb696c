#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

/// Counts the bytes of CPU tensors in a process that has libtorch loaded, around whatever allocator
/// is in place, and gives no more than a budget, if there is one: then a CPU runs full as a device
/// does. planwright_observer/cpu_memory.py loads it into a Python process.
namespace {

constexpr std::int64_t kNoBudget = std::numeric_limits<std::int64_t>::max();

/// Stands right before a tensor's data and is not counted. One cache line, so that the data keeps
/// the alignment of the allocator underneath.
struct alignas(64) BlockHeader {
  std::size_t bytes;
};

/// Relaxed order suffices: each sum is exact in the order in which it changes, so their maximum is.
class CountingAllocator : public c10::Allocator {
 public:
  CountingAllocator(c10::Allocator* inner, std::int64_t budget) : inner_(inner), budget_(budget) {}

  c10::DataPtr allocate(std::size_t n) override;
  c10::DeleterFnPtr raw_deleter() const override { return &CountingAllocator::release; }
  void copy_data(void* to, const void* from, std::size_t n) const override {
    std::memcpy(to, from, n);
  }

  std::int64_t current() const { return current_.load(std::memory_order_relaxed); }
  std::int64_t peak() const { return peak_.load(std::memory_order_relaxed); }
  std::int64_t failures() const { return failures_.load(std::memory_order_relaxed); }
  std::int64_t failed_bytes() const { return failed_bytes_.load(std::memory_order_relaxed); }
  std::int64_t held_at_failure() const { return held_at_failure_.load(std::memory_order_relaxed); }
  void reset_peak() { peak_.store(current(), std::memory_order_relaxed); }

 private:
  static void release(void* data);
  BlockHeader* allocate_block(std::size_t n);
  std::int64_t add(std::int64_t bytes);
  void remove(std::int64_t bytes) { current_.fetch_sub(bytes, std::memory_order_relaxed); }
  void note_peak(std::int64_t sum);
  void note_failure(std::int64_t bytes, std::int64_t held);
  [[noreturn]] void refuse(std::int64_t bytes, std::int64_t held);

  c10::Allocator* const inner_;
  const std::int64_t budget_;
  std::atomic<std::int64_t> current_{0}, peak_{0};
  std::atomic<std::int64_t> failures_{0}, failed_bytes_{0}, held_at_failure_{0};
};

/// Never destroyed: tensors of static objects are released after main has returned.
CountingAllocator* installed = nullptr;

c10::DataPtr CountingAllocator::allocate(std::size_t n) {
  const c10::Device cpu(c10::DeviceType::CPU);
  if (n == 0) return {nullptr, nullptr, &release, cpu};
  void* data = allocate_block(n) + 1;
  return {data, data, &release, cpu};
}

BlockHeader* CountingAllocator::allocate_block(std::size_t n) {
  const auto bytes = static_cast<std::int64_t>(n);
  const std::int64_t sum = add(bytes);
  try {
    void* base = inner_->raw_allocate(n + sizeof(BlockHeader));
    note_peak(sum);
    return new (base) BlockHeader{n};
  } catch (...) {
    remove(bytes);
    note_failure(bytes, current());
    throw;
  }
}

/// The sum with them. Nothing is added to one that has no room for them.
std::int64_t CountingAllocator::add(std::int64_t bytes) {
  std::int64_t held = current();
  do {
    if (bytes > budget_ - held) refuse(bytes, held);
  } while (!current_.compare_exchange_weak(held, held + bytes, std::memory_order_relaxed));
  return held + bytes;
}

/// What torch throws of a device that is full, so that a script which knows how to go on does. Not
/// the text of its CPU allocator: that says the host is full.
void CountingAllocator::refuse(std::int64_t bytes, std::int64_t held) {
  note_failure(bytes, held);
  C10_THROW_ERROR(OutOfMemoryError,
                  c10::str("CPU out of memory. Tried to allocate ", bytes, " bytes. ", held,
                           " bytes are allocated of a budget of ", budget_,
                           " bytes (PLANWRIGHT_OBSERVER_BUDGET)."));
}

void CountingAllocator::note_peak(std::int64_t sum) {
  std::int64_t largest = peak();
  while (largest < sum && !peak_.compare_exchange_weak(largest, sum, std::memory_order_relaxed)) {
  }
}

void CountingAllocator::note_failure(std::int64_t bytes, std::int64_t held) {
  held_at_failure_.store(held, std::memory_order_relaxed);
  failed_bytes_.store(bytes, std::memory_order_relaxed);
  failures_.fetch_add(1, std::memory_order_relaxed);
}

void CountingAllocator::release(void* data) {
  if (data == nullptr) return;
  BlockHeader* block = static_cast<BlockHeader*>(data) - 1;
  installed->remove(static_cast<std::int64_t>(block->bytes));
  installed->inner_->raw_deallocate(block);
}

}  // namespace

extern "C" {

/// Counts every CPU tensor that is allocated from here on, and lets them have `budget` bytes
/// together; 0: any number. Returns 1, or 0 where the allocator in place cannot be wrapped. Call it
/// once, before the first of the other functions.
int planwright_count_cpu_memory(std::int64_t budget) {
  constexpr std::uint8_t kAboveDefault = 1;
  c10::Allocator* inner = c10::GetCPUAllocator();
  if (inner == nullptr || inner->raw_deleter() == nullptr) return 0;
  installed = new CountingAllocator(inner, budget == 0 ? kNoBudget : budget);
  c10::SetCPUAllocator(installed, kAboveDefault);
  return c10::GetCPUAllocator() == installed ? 1 : 0;
}

std::int64_t planwright_cpu_current() { return installed->current(); }
std::int64_t planwright_cpu_peak() { return installed->peak(); }
void planwright_cpu_reset_peak() { installed->reset_peak(); }
std::int64_t planwright_cpu_failures() { return installed->failures(); }
std::int64_t planwright_cpu_failed_bytes() { return installed->failed_bytes(); }
std::int64_t planwright_cpu_held_at_failure() { return installed->held_at_failure(); }
}
