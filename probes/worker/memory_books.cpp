#include "probes/worker/memory_books.h"

#include <utility>

namespace planwright::worker {

void MemoryBooks::add(Account account, Bytes bytes, Phase phase) {
  change(account, bytes);
  note_peaks(phase);
  note_event(account, bytes, phase);
}

void MemoryBooks::remove(Account account, Bytes bytes) { change(account, Bytes{} - bytes); }

void MemoryBooks::move(Account from, Account to, Bytes bytes, Phase phase) {
  change(from, Bytes{} - bytes);
  change(to, bytes);
  note_peaks(phase);
  if (from == Account::workspace) note_event(to, bytes, phase);
}

void MemoryBooks::note_event(Account account, Bytes bytes, Phase phase) {
  if (timeline_ && account != Account::workspace) {
    timeline_->push_back({phase, account, bytes, tensors_});
  }
}

std::vector<probes::MemoryEvent> MemoryBooks::take_timeline() {
  auto events = std::move(timeline_).value_or(std::vector<probes::MemoryEvent>{});
  timeline_.reset();
  return events;
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
