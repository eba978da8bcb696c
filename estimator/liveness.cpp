#include "estimator/liveness.h"

namespace planwright::estimator {

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

Script& Script::append(const Script& other) {
  events_.insert(events_.end(), other.events_.begin(), other.events_.end());
  return *this;
}

void Simulator::enter() {
  peaks_ = {live_, live_, std::nullopt};
  tensors_total_ = kernels_total_ = total_;
}

void Simulator::run(const Script& script) {
  for (const Event& event : script.events()) step(event);
}

void Simulator::repeat(const Script& script, std::int64_t count) {
  if (count <= 0) return;
  Ledger net;
  std::int64_t net_total = 0;
  for (const Event& event : script.events()) {
    const std::int64_t sign = event.kind == Event::Kind::make   ? 1
                              : event.kind == Event::Kind::drop ? -1
                                                                : 0;
    net[event.account] += Bytes{sign * event.bytes};
    net_total += sign * event.bytes;
  }
  const auto skip_rounds = [&] {
    for (std::size_t i = 0; i < net.bytes.size(); ++i) live_.bytes[i] += net.bytes[i] * (count - 1);
    total_ += net_total * (count - 1);
  };
  if (net_total > 0) skip_rounds();
  run(script);
  if (net_total <= 0) skip_rounds();
}

void Simulator::step(const Event& event) {
  switch (event.kind) {
    case Event::Kind::make:
      live_[event.account] += Bytes{event.bytes};
      total_ += event.bytes;
      return look(0, false);
    case Event::Kind::drop:
      live_[event.account] -= Bytes{event.bytes};
      total_ -= event.bytes;
      return;
    case Event::Kind::into:
      return;
    case Event::Kind::call:
      return look(event.bytes, event.scratch);
  }
}

void Simulator::look(std::int64_t workspace, bool scratch) {
  if (total_ > tensors_total_) {
    tensors_total_ = total_;
    peaks_.tensors = live_;
  }
  const std::int64_t with_workspace = total_ + workspace;
  const auto instant = [&] {
    Ledger now = live_;
    now[Account::workspace] += Bytes{workspace};
    return now;
  };
  if (with_workspace > kernels_total_) {
    kernels_total_ = with_workspace;
    peaks_.kernels = instant();
  }
  if (scratch && (!peaks_.product || with_workspace > product_total_)) {
    product_total_ = with_workspace;
    peaks_.product = instant();
  }
}

}  // namespace planwright::estimator
