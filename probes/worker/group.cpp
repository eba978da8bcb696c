#include "probes/worker/group.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <exception>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>

#include "probes/worker/clock.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/error_text.h"

namespace planwright::worker {
namespace {

/// gloo's thread may hold a collective's tensors for a moment longer than the caller waits. On a
/// CPU it gets one that does not own its memory, so that a tensor is released where our code says.
at::Tensor borrowed(const at::Tensor& tensor) {
  if (!tensor.is_cpu()) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(), tensor.options());
}

[[noreturn]] void rethrow(const std::exception& error) {
  if (out_of_memory(error)) throw;
  throw PeerFailed("a collective broke: " + error_text(error));
}

/// What a stand-in receives: finite, and of the size of an activation.
constexpr double kStandInValue = 0.01;

double bytes_of(const at::Tensor& tensor) { return static_cast<double>(tensor.nbytes()); }

}  // namespace

Pending::Pending() = default;
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

void Pending::wait() {
  if (works_.empty()) return;
  const SpendingScope scope(kind_);
  try {
    for (const auto& work : works_) work->wait();
  } catch (const std::exception& error) {
    rethrow(error);
  }
  works_.clear();
  sleep_until(not_before_);
}

Group::Group(int rank, int size, c10::intrusive_ptr<c10d::Backend> backend,
             std::optional<double> link)
    : rank_(rank), size_(size), backend_(std::move(backend)), link_(link) {}

Group::~Group() = default;

/// `bytes` is what goes over this rank's link, which carries one thing after the other.
template <class Start>
void Group::begin(Pending& pending, double bytes, const Start& start) {
  try {
    pending.works_.push_back(start());
  } catch (const std::exception& error) {
    rethrow(error);
  }
  if (!link_) return;
  link_free_at_ = std::max(monotonic_s(), link_free_at_) + bytes / *link_;
  pending.not_before_ = link_free_at_;
}

template <class Start>
Pending Group::begun(double bytes, const Start& start) {
  Pending pending;
  if (backend_) begin(pending, bytes, start);
  return pending;
}

at::Tensor Group::slice(const at::Tensor& whole, int rank) const {
  const std::int64_t rows = whole.size(0) / size_;
  return whole.narrow(0, rank * rows, rows);
}

void Group::stand_in_gather(const at::Tensor& whole) const {
  for (int other = 0; other < size_; ++other) {
    if (other != rank_) slice(whole, other).copy_(own(whole));
  }
}

// Bytes over the link: a ring sends (n - 1) / n of the buffer to reduce it and as much to gather
// it.

Pending Group::begin_sum(const at::Tensor& tensor) {
  return begun(2 * bytes_of(tensor) * (size_ - 1) / size_, [&] {
    std::vector<at::Tensor> tensors{borrowed(tensor)};
    return backend_->allreduce(tensors);
  });
}

Pending Group::begin_scatter_sum(const at::Tensor& whole) {
  if (transport() == Transport::gloo) return begin_sum(whole);
  return begun(bytes_of(whole) * (size_ - 1) / size_, [&] {
    at::Tensor all = whole, mine = own(whole);
    return backend_->_reduce_scatter_base(mine, all);
  });
}

Pending Group::begin_gather(const at::Tensor& whole) {
  if (size_ == 1) return {};
  if (!backend_) {
    stand_in_gather(whole);
    return {};
  }
  if (transport() == Transport::nccl) {
    return begun(bytes_of(whole) * (size_ - 1) / size_, [&] {
      at::Tensor all = whole, mine = own(whole);
      return backend_->_allgather_base(all, mine);
    });
  }
  Pending pending;
  for (int owner = 0; owner < size_; ++owner) {
    begin(pending, bytes_of(whole) / size_, [&] {
      std::vector<at::Tensor> tensors{borrowed(slice(whole, owner))};
      c10d::BroadcastOptions options;
      options.rootRank = owner;
      return backend_->broadcast(tensors, options);
    });
  }
  return pending;
}

void Group::maximum(const at::Tensor& tensor) {
  begun(2 * bytes_of(tensor), [&] {
    std::vector<at::Tensor> tensors{borrowed(tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = c10d::ReduceOp::MAX;
    return backend_->allreduce(tensors, options);
  }).wait();
}

void Group::broadcast(const at::Tensor& tensor, int root) {
  begun(bytes_of(tensor), [&] {
    std::vector<at::Tensor> tensors{borrowed(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return backend_->broadcast(tensors, options);
  }).wait();
}

void Group::barrier() {
  begun(0, [&] { return backend_->barrier(); }).wait();
}

void Group::exchange(const std::vector<Neighbour>& neighbours) {
  if (!backend_) {
    for (const Neighbour& each : neighbours) {
      if (each.in.defined()) each.in.fill_(kStandInValue);
    }
    return;
  }
  const bool together = transport() == Transport::nccl;
  Pending pending;
  pending.kind_ = Spending::bubble;
  if (together) backend_->startCoalescing();
  for (const Neighbour& each : neighbours) {
    if (each.out.defined()) {
      begin(pending, bytes_of(each.out), [&] {
        std::vector<at::Tensor> tensors{borrowed(each.out)};
        return backend_->send(tensors, each.rank, 0);
      });
    }
    if (each.in.defined()) {
      begin(pending, bytes_of(each.in), [&] {
        std::vector<at::Tensor> tensors{borrowed(each.in)};
        return backend_->recv(tensors, each.rank, 0);
      });
    }
  }
  if (together) pending.works_ = {backend_->endCoalescing()};
  pending.wait();
}

}  // namespace planwright::worker
