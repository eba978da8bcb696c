#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "probes/protocol/probe_request.h"
#include "probes/worker/group.h"

namespace c10d {
class Store;
}

namespace planwright::worker {

/// Where all ranks of a run meet, and the groups they form. Every rank asks for its groups in the
/// same order of kinds; a group that was formed is kept for the process's life.
class Collectives {
 public:
  /// Meets the others at request.rendezvous. Throws PeerFailed.
  Collectives(const probes::ProbeRequest& request, int rank);
  ~Collectives();
  Collectives(const Collectives&) = delete;
  Collectives& operator=(const Collectives&) = delete;

  int rank() const { return rank_; }
  int world() const { return request_.world; }

  Group& all() { return *all_; }
  /// The group of these ranks of the world, this one among them.
  Group& group(const std::vector<int>& ranks);

 private:
  std::unique_ptr<Group> form(const std::string& name, const std::vector<int>& ranks);

  const probes::ProbeRequest& request_;
  int rank_;
  c10::intrusive_ptr<c10d::Store> store_;  ///< null with one rank
  std::unique_ptr<Group> all_;
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;
};

/// The transport's backend; defined in collectives_cpu.cpp, collectives_cuda.cpp.
c10::intrusive_ptr<c10d::Backend> make_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                               int rank, int size, double timeout_s);

}  // namespace planwright::worker
