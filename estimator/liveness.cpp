#include "estimator/liveness.h"

#include <algorithm>
#include <utility>

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

void Simulator::run(const Effect& effect) {
  if (timeline_ != nullptr) return run(effect.script);
  here().look(live_, total_, effect.largest);
  live_ += effect.change;
  total_ += effect.total;
  copies_.most = std::max(copies_.most, copies_.here + effect.copies.most);
  copies_.here += effect.copies.here;
  copies_.sent += effect.copies.sent;
  copies_.fetched += effect.copies.fetched;
}

Effect effect_of(Script script, bool page_locks) {
  Simulator simulator(page_locks);
  Largest& largest = simulator.here();
  largest.tensors_total = largest.kernels_total = largest.product_total = Largest::kNone;
  simulator.copies_.most = Largest::kNone;
  simulator.run(script);
  return {std::move(script), simulator.live_, simulator.total_, simulator.copies_, largest};
}

namespace {

Ledger with_workspace(Ledger live, std::int64_t workspace) {
  live[Account::workspace] += Bytes{workspace};
  return live;
}

Ledger sum(Ledger a, const Ledger& b) {
  a += b;
  return a;
}

}  // namespace

void Largest::look(const Ledger& live, std::int64_t total, std::int64_t workspace, bool scratch) {
  if (total > tensors_total) {
    tensors_total = total;
    peaks.tensors = live;
  }
  const std::int64_t all = total + workspace;
  if (all > kernels_total) {
    kernels_total = all;
    peaks.kernels = with_workspace(live, workspace);
  }
  if (scratch && (!peaks.product || all > product_total)) {
    product_total = all;
    peaks.product = with_workspace(live, workspace);
  }
}

void Largest::look(const Ledger& live, std::int64_t total, const Largest& of_script) {
  if (total + of_script.tensors_total > tensors_total) {
    tensors_total = total + of_script.tensors_total;
    peaks.tensors = sum(live, of_script.peaks.tensors);
  }
  if (total + of_script.kernels_total > kernels_total) {
    kernels_total = total + of_script.kernels_total;
    peaks.kernels = sum(live, of_script.peaks.kernels);
  }
  const std::int64_t product = total + of_script.product_total;
  if (of_script.peaks.product && (!peaks.product || product > product_total)) {
    product_total = product;
    peaks.product = sum(live, *of_script.peaks.product);
  }
}

}  // namespace planwright::estimator
