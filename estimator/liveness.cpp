#include "estimator/liveness.h"

#include <algorithm>

#include "estimator/page_locked.h"

namespace planwright::estimator {
namespace {

/// What an allocator has taken and not handed out is no part of a peak.
std::int64_t allocated(Account account, std::int64_t bytes) {
  return account == Account::fragmentation ? 0 : bytes;
}

}  // namespace

Script& Script::make(const Tensor& tensor) {
  events_.push_back({Event::Kind::make, tensor.name, tensor.account, tensor.bytes, false});
  return *this;
}

Script& Script::drop(const Tensor& tensor) {
  events_.push_back({Event::Kind::drop, tensor.name, tensor.account, tensor.bytes, false});
  return *this;
}

Script& Script::into(const Tensor& storage, const char* name) {
  events_.push_back({Event::Kind::into, name, storage.account, 0, false});
  return *this;
}

Script& Script::call(const char* name, std::int64_t workspace, bool scratch) {
  events_.push_back({Event::Kind::call, name, Account::workspace, workspace, scratch});
  return *this;
}

Script& Script::send(const Tensor& tensor) {
  events_.push_back({Event::Kind::send, tensor.name, tensor.account, tensor.bytes, false});
  return *this;
}

Script& Script::fetch(const Tensor& tensor) {
  events_.push_back({Event::Kind::fetch, tensor.name, tensor.account, tensor.bytes, false});
  return *this;
}

Script& Script::forget(const Tensor& tensor) {
  events_.push_back({Event::Kind::forget, tensor.name, tensor.account, tensor.bytes, false});
  return *this;
}

Script& Script::append(const Script& other) {
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
  return *this;
}

void Simulator::enter(Phase phase) {
  phase_ = phase;
  look(0, false);
}

void Simulator::run(const Script& script) {
  for (const Event& event : script.events()) step(event);
}

void Simulator::skip(const Ledger& before, const HostCopies& copies_before, std::int64_t rounds) {
  copies_.here += (copies_.here - copies_before.here) * rounds;
  copies_.sent += (copies_.sent - copies_before.sent) * rounds;
  copies_.fetched += (copies_.fetched - copies_before.fetched) * rounds;
  copies_.most = std::max(copies_.most, copies_.here);
  total_ = 0;
  for (std::size_t i = 0; i < live_.bytes.size(); ++i) {
    live_.bytes[i] += (live_.bytes[i] - before.bytes[i]) * rounds;
    total_ += allocated(static_cast<Account>(i), live_.bytes[i].value);
  }
}

void Simulator::step(const Event& event) {
  switch (event.kind) {
    case Event::Kind::make:
      live_[event.account] += Bytes{event.bytes};
      total_ += allocated(event.account, event.bytes);
      if (timeline_ != nullptr && event.bytes > 0) {
        timeline_->push_back({event.name, phase_, event.account, event.bytes, total_});
      }
      return look(0, false);
    case Event::Kind::drop:
      live_[event.account] -= Bytes{event.bytes};
      total_ -= allocated(event.account, event.bytes);
      return;
    case Event::Kind::into:
      return;
    case Event::Kind::call:
      return look(event.bytes, event.scratch);
    case Event::Kind::send:
    case Event::Kind::fetch:
    case Event::Kind::forget:
      return copy(event);
  }
}

void Simulator::copy(const Event& event) {
  const std::int64_t taken = page_locks_ ? page_locked(event.bytes) : event.bytes;
  const bool comes = event.kind == Event::Kind::send;
  copies_.here += comes ? taken : -taken;
  copies_.most = std::max(copies_.most, copies_.here);
  if (comes) copies_.sent += event.bytes;
  if (event.kind == Event::Kind::fetch) copies_.fetched += event.bytes;
}

void Simulator::look(std::int64_t workspace, bool scratch) {
  PhasePeaks& here = phases_[static_cast<std::size_t>(phase_)];
  if (total_ > here.tensors_total) {
    here.tensors_total = total_;
    here.peaks.tensors = live_;
  }
  const std::int64_t with_workspace = total_ + workspace;
  const auto instant = [&] {
    Ledger now = live_;
    now[Account::workspace] += Bytes{workspace};
    return now;
  };
  if (with_workspace > here.kernels_total) {
    here.kernels_total = with_workspace;
    here.peaks.kernels = instant();
  }
  if (scratch && (!here.peaks.product || with_workspace > here.product_total)) {
    here.product_total = with_workspace;
    here.peaks.product = instant();
  }
}

}  // namespace planwright::estimator
