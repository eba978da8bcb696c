#include <c10/core/CPUAllocator.h>

#include "probes/worker/device_memory.h"
#include "probes/worker/progress.h"

// The worker's own books, with two of their functions under other names.
#define install_device_memory install_booked_memory
#define rebook rebook_booked
#include "probes/worker/device_memory_cpu.cpp"  // NOLINT(bugprone-suspicious-include)
#undef install_device_memory
#undef rebook

/// Even steps allocate from the worker's booked allocator, odd ones from libtorch's own, so that
/// neighbours in steps_s say what the books cost. Linked before the worker's library it takes the
/// place of device_memory_cpu.cpp and progress.cpp.
///
/// A tensor goes back to the allocator that it came from. Only tensors of the step itself are
/// rebooked, so one that is not in the books never is.
namespace planwright::worker {
namespace {

bool books_kept = true;

void keep_books(bool keep) {
  books_kept = keep;
  if (keep) {
    install_booked_memory();
  } else {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), 1);
  }
}

}  // namespace

void install_device_memory() { keep_books(true); }

void rebook(const at::Tensor& tensor, Account account) {
  if (books_kept) rebook_booked(tensor, account);
}

Progress::Progress() : open_(false) {}
void Progress::step(int number) const { keep_books(number % 2 == 0); }
void Progress::alive() const {}

}  // namespace planwright::worker
