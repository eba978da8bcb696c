#pragma once

#include <vector>

#include "estimator/quantities.h"
#include "estimator/spec/cluster_spec.h"
#include "estimator/spec/target_traits.h"

/// Groups of ranks, and the links that they meet over.
namespace planwright::estimator {

/// Index of the innermost link that joins `span` neighbouring devices.
int innermost_link(const ClusterSpec& cluster, int span);

/// What one collective of a group costs on the way: how often it waits for the answer of the
/// group's outermost link, and how much of that link's bandwidth each rank has of its own and its
/// neighbours'.
struct Way {
  double hops = 1;
  double lanes = 1;
};

/// Ranks of one group, `stride` apart.
struct Party {
  int ranks = 1;
  int link = 0;  ///< the innermost that spans them
  Way ring{}, exchange{};
};

Party party_of(const ClusterSpec& cluster, Transport transport, int ranks, int stride);

/// Collects messages as the transport carries them out: over gloo a reduce-scatter is an
/// all-reduce, and a gathering one broadcast per owner.
class Collector {
 public:
  Collector(const ClusterSpec& cluster, Transport transport)
      : cluster_(cluster), transport_(transport) {}

  Party party(int ranks, int stride) const { return party_of(cluster_, transport_, ranks, stride); }

  void sum(std::vector<Messages>& to, const Party& p, double count, double bytes) const;
  void scatter_sum(std::vector<Messages>& to, const Party& p, double count, double bytes) const;
  void gather(std::vector<Messages>& to, const Party& p, double count, double bytes) const;
  void exchange(std::vector<Messages>& to, const Party& p, double count, double bytes) const;
  /// From each to the next.
  void send(std::vector<Messages>& to, const Party& p, double count, double bytes) const;

 private:
  bool ring() const { return transport_ == Transport::nccl; }

  const ClusterSpec& cluster_;
  Transport transport_;
};

}  // namespace planwright::estimator
