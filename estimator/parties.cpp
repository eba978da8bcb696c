#include "estimator/parties.h"

#include <algorithm>

namespace planwright::estimator {
namespace {

/// How many of a group's ranks are together at each level of its links: alone inside the innermost,
/// and all of them over the outermost.
class Levels {
 public:
  Levels(const ClusterSpec& cluster, const Party& party, int stride)
      : links_(cluster.links), party_(party), stride_(stride) {}

  int count() const { return party_.link + 1; }
  /// Joined without the link of that level.
  double within(int level) const {
    if (level == 0) return 1;
    if (level == count()) return party_.ranks;
    const int span = links_[static_cast<std::size_t>(level) - 1].span;
    return std::clamp(span / stride_, 1, party_.ranks);
  }
  double latency(int level) const { return link(level).latency / outermost().latency; }
  double width(int level) const { return link(level).bandwidth / outermost().bandwidth; }

 private:
  const Link& link(int level) const { return links_[static_cast<std::size_t>(level)]; }
  const Link& outermost() const { return link(party_.link); }

  const std::vector<Link>& links_;
  const Party& party_;
  int stride_;
};

/// Rings of NCCL go through all neighbours of a node before they leave it, once each, and there are
/// as many rings as neighbours, each of which leaves by its own card. Source: NVIDIA/nccl
/// src/graph/tuning.cc, nInterSteps, and src/graph/connect.cc @ v2.28.9-1; that bandwidth grows
/// with the cards of a node: published tables of nccl-tests, 1, 4 and 8 cards.
Way ring_way(const Levels& levels, int ranks) {
  Way way{0, levels.within(levels.count())};
  for (int level = 0; level < levels.count(); ++level) {
    const double in = levels.within(level), over = levels.within(level + 1);
    if (over == in) continue;
    way.hops += (ranks / in - ranks / over) * levels.latency(level);
    way.lanes = std::min(way.lanes, in * levels.width(level));
  }
  return way;
}

/// Each rank sends to those beyond its node by its own card, beside what it sends inside, and to
/// all at once. Source: as above, all-to-all between nodes.
Way exchange_way(const Levels& levels, int ranks) {
  Way way{1, 1};
  double slowest = 0;
  for (int level = 0; level < levels.count(); ++level) {
    const double reached = levels.within(level + 1) - levels.within(level);
    slowest = std::max(slowest, reached / levels.width(level));
  }
  way.lanes = (ranks - 1) / slowest;
  return way;
}

void add(std::vector<Messages>& to, const Messages& messages) {
  if (messages.ranks > 1 && messages.count > 0) to.push_back(messages);
}

Messages made(Collective kind, double count, double bytes, const Party& p, const Way& way) {
  return {kind, count, bytes, p.ranks, p.link, way.hops, way.lanes};
}

}  // namespace

int innermost_link(const ClusterSpec& cluster, int span) {
  const auto found = std::find_if(cluster.links.begin(), cluster.links.end(),
                                  [&](const Link& link) { return link.span >= span; });
  const auto last = static_cast<std::ptrdiff_t>(cluster.links.size()) - 1;
  return static_cast<int>(std::clamp<std::ptrdiff_t>(found - cluster.links.begin(), 0,
                                                     std::max<std::ptrdiff_t>(last, 0)));
}

Party party_of(const ClusterSpec& cluster, Transport transport, int ranks, int stride) {
  Party party{ranks, innermost_link(cluster, (ranks - 1) * stride + 1), {}, {}};
  party.ring = party.exchange = {static_cast<double>(ranks - 1), 1};
  if (transport == Transport::gloo || party.link == 0) return party;
  const Levels levels(cluster, party, stride);
  party.ring = ring_way(levels, ranks);
  party.exchange = exchange_way(levels, ranks);
  return party;
}

void Collector::sum(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
  add(to, made(Collective::all_reduce, count, bytes, p, p.ring));
}

void Collector::scatter_sum(std::vector<Messages>& to, const Party& p, double count,
                            double bytes) const {
  const Collective kind = ring() ? Collective::reduce_scatter : Collective::all_reduce;
  add(to, made(kind, count, bytes, p, p.ring));
}

void Collector::gather(std::vector<Messages>& to, const Party& p, double count,
                       double bytes) const {
  if (ring()) return add(to, made(Collective::all_gather, count, bytes, p, p.ring));
  add(to, made(Collective::broadcast, count * p.ranks, bytes, p, {}));
}

void Collector::exchange(std::vector<Messages>& to, const Party& p, double count,
                         double bytes) const {
  add(to, made(Collective::all_to_all, count, bytes, p, p.exchange));
}

void Collector::send(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
  add(to, made(Collective::send, count, bytes, p, {}));
}

}  // namespace planwright::estimator
