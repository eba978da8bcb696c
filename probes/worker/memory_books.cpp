#include "probes/worker/memory_books.h"

namespace planwright::worker {

void MemoryBooks::add(Account account, Bytes bytes, Phase phase) {
  change(account, bytes);
  note_peaks(phase);
}

void MemoryBooks::remove(Account account, Bytes bytes) { change(account, Bytes{} - bytes); }

void MemoryBooks::move(Account from, Account to, Bytes bytes, Phase phase) {
  change(from, Bytes{} - bytes);
  change(to, bytes);
  note_peaks(phase);
}

void MemoryBooks::reset_peaks(Phase phase) {
  largest_allocated_ = allocated_;
  largest_tensors_ = tensors_;
  peaks_ = {live_, phase, live_, phase};
}

void MemoryBooks::change(Account account, Bytes bytes) {
  live_[account] += bytes;
  allocated_ += bytes;
  if (account != Account::workspace) tensors_ += bytes;
}

void MemoryBooks::note_peaks(Phase phase) {
  if (allocated_ > largest_allocated_) {
    largest_allocated_ = allocated_;
    peaks_.allocated = live_;
    peaks_.allocated_phase = phase;
  }
  if (tensors_ > largest_tensors_) {
    largest_tensors_ = tensors_;
    peaks_.tensors = live_;
    peaks_.tensors_phase = phase;
  }
}

}  // namespace planwright::worker
