#include "estimator/messages.h"

#include <algorithm>

#include "estimator/spec/rank_grid.h"
#include "estimator/spec/recompute_plan.h"

namespace planwright::estimator {
namespace {

int innermost_link(const ClusterSpec& cluster, int span) {
  const auto found = std::find_if(cluster.links.begin(), cluster.links.end(),
                                  [&](const Link& link) { return link.span >= span; });
  const auto last = static_cast<std::ptrdiff_t>(cluster.links.size()) - 1;
  return static_cast<int>(std::clamp<std::ptrdiff_t>(found - cluster.links.begin(), 0,
                                                     std::max<std::ptrdiff_t>(last, 0)));
}

/// Ranks of one group, and the link they meet over.
struct Party {
  int ranks = 1;
  int link = 0;
};

/// Collects messages as the transport carries them out: over gloo a reduce-scatter is an
/// all-reduce, and a gathering one broadcast per owner.
class Collector {
 public:
  explicit Collector(const MessageContext& context) : c_(context) {}

  /// `stride`: ranks from one member to the next.
  Party party(int ranks, int stride) const {
    return {ranks, innermost_link(c_.problem.cluster, (ranks - 1) * stride + 1)};
  }

  void sum(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
    add(to, Collective::all_reduce, p, count, bytes);
  }
  void scatter_sum(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
    add(to, ring() ? Collective::reduce_scatter : Collective::all_reduce, p, count, bytes);
  }
  void gather(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
    if (ring()) return add(to, Collective::all_gather, p, count, bytes);
    add(to, Collective::broadcast, p, count * p.ranks, bytes);
  }
  void send(std::vector<Messages>& to, const Party& p, double count, double bytes) const {
    to.push_back({Collective::send, count, bytes, 2, p.link});
  }

 private:
  bool ring() const { return c_.transport == Transport::nccl; }
  static void add(std::vector<Messages>& to, Collective kind, const Party& p, double count,
                  double bytes) {
    if (p.ranks > 1 && count > 0) to.push_back({kind, count, bytes, p.ranks, p.link});
  }

  const MessageContext& c_;
};

/// How often a stage's hidden rows go round its tensor ranks in one micro-batch.
struct TensorRounds {
  double sums = 0;                   ///< without sequence parallelism
  double gathers = 0, scatters = 0;  ///< with it
};

/// A block has two pairs of products. Each is followed by a sum in forward, and in backward by one
/// of its input's gradient. With sequence parallelism each input is gathered before its pair, and
/// in backward again, and so is the gradient that comes in.
TensorRounds tensor_rounds(const MessageContext& c) {
  TensorRounds rounds;
  const auto add = [&](double pairs, double gathers, double scatters) {
    rounds.sums += pairs;
    rounds.gathers += gathers;
    rounds.scatters += scatters;
  };
  const auto layers = static_cast<double>(c.part.layers);
  add(4 * layers, 6 * layers, 4 * layers);
  for (const BackwardVisit& visit : backward_visits(c.candidate.recompute, c.part.layers)) {
    if (visit.kind == BackwardVisit::Kind::rebuild) add(2, 2, 2);
    if (visit.kind == BackwardVisit::Kind::rebuild_and_backward) add(1, 2, 1);
  }
  if (c.part.first) add(1, 1, 1);
  if (c.part.last) add(1, 1, 1);
  return rounds;
}

void add_tensor_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.tp == 1) return;
  const Party ranks = collect.party(c.candidate.tp, 1);
  const TensorRounds rounds = tensor_rounds(c);
  const double rows = static_cast<double>(c.shape.tokens());
  const double hidden = rows * static_cast<double>(c.shape.hidden * c.shape.e());
  if (c.shape.sp) {
    collect.gather(q.waited, ranks, rounds.gathers, rounds.gathers * hidden);
    collect.scatter_sum(q.waited, ranks, rounds.scatters, rounds.scatters * hidden);
  } else {
    collect.sum(q.waited, ranks, rounds.sums, rounds.sums * hidden);
  }
  // The loss: the largest logit of each row, and two sums.
  if (c.part.last) collect.sum(q.waited, ranks, 2, 3 * rows * static_cast<double>(c.shape.c()));
}

/// A stage between two others hands over twice in a micro-batch, forwards and backwards at once.
void add_pipeline_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.pp == 1) return;
  const double handovers = c.part.first || c.part.last ? 1 : 2;
  const Party neighbours = collect.party(2, c.candidate.tp * c.candidate.dp);
  collect.send(q.waited, neighbours, handovers,
               handovers * static_cast<double>(c.shape.local_unit()));
}

/// How often a micro-batch gathers the elements of each unit with ZeRO 3, all units together.
double gathered_elements(const MessageContext& c) {
  std::vector<double> times(static_cast<std::size_t>(c.part.head_unit()) + 1, 0);
  const auto unit = [&](std::int64_t layer) -> double& {
    return times[static_cast<std::size_t>(c.part.block_unit(c.part.first_layer + layer))];
  };
  times.front() = c.part.first ? 1 : 0;
  times.back() = c.part.last ? 1 : 0;
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) unit(layer) += 1;
  for (const auto& visit : backward_visits(c.candidate.recompute, c.part.layers)) {
    unit(visit.layer) += 1;
  }
  double elements = 0;
  for (const FlatBucket& bucket : c.layout.buckets) {
    double often = times[static_cast<std::size_t>(bucket.completed_by)];
    if (bucket.opened_by != bucket.completed_by) {
      often += times[static_cast<std::size_t>(bucket.opened_by)];
    }
    elements += often * static_cast<double>(bucket.numel);
  }
  return elements;
}

double partial_elements(const FlatLayout& layout) {
  double sum = 0;
  for (const FlatBucket& bucket : layout.buckets) sum += static_cast<double>(bucket.partial_numel);
  return sum;
}

void add_data_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  const PrecisionRecipe& recipe = c.problem.workload.recipe;
  const double g = static_cast<double>(bytes_of(recipe.gradient));
  const double e = static_cast<double>(bytes_of(recipe.storage));
  const double buckets = static_cast<double>(c.layout.buckets.size());
  const double numel = static_cast<double>(c.layout.numel);
  const int shards = shard_ranks(c.candidate), tp = c.candidate.tp;
  const Party shard = collect.party(shards, tp);
  const Party replica = collect.party(c.candidate.dp / shards, tp * shards);

  const bool per_micro_batch = c.candidate.zero >= 2;
  auto& waited = per_micro_batch ? q.waited : q.messages;
  auto& hidden = !c.overlap ? waited : per_micro_batch ? q.beside : q.beside_last_backward;
  if (c.shape.sp) {
    collect.sum(waited, collect.party(tp, 1), buckets, g * partial_elements(c.layout));
  }
  if (shards > 1) {
    collect.scatter_sum(hidden, shard, buckets, g * numel);
    collect.sum(waited, replica, buckets, g * numel / shards);
  } else {
    collect.sum(hidden, replica, buckets, g * numel);
  }
  if (c.candidate.zero == 3) {
    collect.gather(hidden, shard, buckets, e * gathered_elements(c));
  } else if (shards > 1) {
    collect.gather(q.messages, shard, buckets, e * numel);
  }
}

/// With a loss scale all ranks agree on whether a step is taken.
void add_agreement_message(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.problem.workload.recipe.compute != DType::fp16) return;
  collect.sum(q.messages, collect.party(static_cast<int>(c.candidate.world()), 1), 1, 4);
}

/// The first and the last stage sum the gradient of a tied head.
void add_embedding_message(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (!shares_embedding(c.problem.model, c.part)) return;
  const Party ends = collect.party(2, c.candidate.tp * c.candidate.dp * (c.candidate.pp - 1));
  const double g = static_cast<double>(bytes_of(c.problem.workload.recipe.gradient));
  for (const FlatBucket& bucket : c.layout.buckets) {
    if (!bucket.shared) continue;
    collect.sum(q.messages, ends, 1, g * static_cast<double>(bucket.numel / c.layout.ranks));
  }
}

}  // namespace

void add_messages(StageQuantities& stage, const MessageContext& context) {
  const Collector collect(context);
  add_tensor_messages(stage, context, collect);
  add_pipeline_messages(stage, context, collect);
  add_data_messages(stage, context, collect);
  add_embedding_message(stage, context, collect);
  add_agreement_message(stage, context, collect);
}

}  // namespace planwright::estimator
