#include "probes/worker/collectives.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <numeric>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "probes/worker/error_text.h"

namespace planwright::worker {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

std::string name_of(const std::vector<int>& ranks) {
  std::string name = "ranks";
  for (const int rank : ranks) name += " " + std::to_string(rank);
  return name;
}

/// Whatever keeps ranks from meeting is a peer's failure.
template <class Meet>
auto met(const Meet& meet) {
  try {
    return meet();
  } catch (const std::exception& error) {
    throw PeerFailed("the ranks did not meet: " + error_text(error));
  }
}

c10::intrusive_ptr<c10d::Store> meeting_store(const probes::ProbeRequest& request) {
  if (request.world == 1) return {};
  return met([&] {
    c10::intrusive_ptr<c10d::Store> store =
        c10::make_intrusive<c10d::FileStore>(request.rendezvous, request.world);
    store->setTimeout(milliseconds(request.collective_timeout_s));
    return store;
  });
}

}  // namespace

Collectives::Collectives(const probes::ProbeRequest& request, int rank)
    : request_(request), rank_(rank), store_(meeting_store(request)) {
  std::vector<int> ranks(static_cast<std::size_t>(request.world));
  std::iota(ranks.begin(), ranks.end(), 0);
  all_ = form("all", ranks);
}

Collectives::~Collectives() = default;

std::unique_ptr<Group> Collectives::form(const std::string& name, const std::vector<int>& ranks) {
  const int size = static_cast<int>(ranks.size());
  const int rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  if (size == 1) return std::make_unique<Group>(0, 1, nullptr);
  return met([&] {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, store_);
    return std::make_unique<Group>(rank, size,
                                   make_backend(store, rank, size, request_.collective_timeout_s),
                                   request_.link_bytes_per_s);
  });
}

Group& Collectives::group(const std::vector<int>& ranks) {
  if (static_cast<int>(ranks.size()) == all_->size()) return *all_;
  std::unique_ptr<Group>& group = groups_[ranks];
  if (!group) group = form(name_of(ranks), ranks);
  return *group;
}

}  // namespace planwright::worker
