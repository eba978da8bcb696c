#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>

/// Counts the bytes of CPU tensors in a process that has libtorch loaded, around whatever allocator
/// is in place. planwright_observer/cpu_memory.py loads it into a Python process.
namespace {

/// Stands right before a tensor's data and is not counted. One cache line, so that the data keeps
/// the alignment of the allocator underneath.
struct alignas(64) BlockHeader {
  std::size_t bytes;
};

/// Relaxed order suffices: each sum is exact in the order in which it changes, so their maximum is.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* inner) : inner_(inner) {}

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
  void add(std::int64_t bytes);
  void note_failure(std::int64_t bytes);

  c10::Allocator* const inner_;
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
  try {
    void* base = inner_->raw_allocate(n + sizeof(BlockHeader));
    add(bytes);
    return new (base) BlockHeader{n};
  } catch (...) {
    note_failure(bytes);
    throw;
  }
}

void CountingAllocator::add(std::int64_t bytes) {
  const std::int64_t sum = current_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::int64_t largest = peak();
  while (largest < sum && !peak_.compare_exchange_weak(largest, sum, std::memory_order_relaxed)) {
  }
}

void CountingAllocator::note_failure(std::int64_t bytes) {
  held_at_failure_.store(current(), std::memory_order_relaxed);
  failed_bytes_.store(bytes, std::memory_order_relaxed);
  failures_.fetch_add(1, std::memory_order_relaxed);
}

void CountingAllocator::release(void* data) {
  if (data == nullptr) return;
  BlockHeader* block = static_cast<BlockHeader*>(data) - 1;
  installed->current_.fetch_sub(static_cast<std::int64_t>(block->bytes), std::memory_order_relaxed);
  installed->inner_->raw_deallocate(block);
}

}  // namespace

extern "C" {

/// Counts every CPU tensor that is allocated from here on. 1, or 0 where the allocator in place
/// cannot be wrapped. Call it once, before the first of the other functions.
int planwright_count_cpu_memory() {
  constexpr std::uint8_t kAboveDefault = 1;
  c10::Allocator* inner = c10::GetCPUAllocator();
  if (inner == nullptr || inner->raw_deleter() == nullptr) return 0;
  installed = new CountingAllocator(inner);
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
