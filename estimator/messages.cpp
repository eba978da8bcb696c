#include "estimator/messages.h"

#include <algorithm>

#include "estimator/exchange_messages.h"
#include "estimator/parties.h"
#include "estimator/spec/rank_grid.h"

namespace planwright::estimator {

namespace {

/// How often a stage's hidden rows go round its tensor ranks in one micro-batch.
struct TensorRounds {
  double sums = 0;                   ///< without sequence parallelism
  double gathers = 0, scatters = 0;  ///< with it
  double operands = 0;               ///< of the gathered ones those for blocks' products

  void add(double pairs, double gathered, double scattered) {
    sums += pairs;
    gathers += gathered;
    scatters += scattered;
  }
};

/// Pairs of products that tensor ranks share. Of Transformer Engine's experts each has its own
/// tokens: see estimator/exchange_messages.
double shared_pairs(const MessageContext& c, const BlockSpec& b) {
  const bool sent = c.shape.kernels == KernelSet::transformer_engine && b.moe;
  return sent && b.moe->shared_ffn == 0 ? 1 : 2;
}

/// A block has two pairs of products. Each is followed by a sum in forward, and in backward by one
/// of its input's gradient. With sequence parallelism each input is gathered before its pair, and
/// in backward again, and so is the gradient that comes in. A parallel block's pairs share the sum
/// in forward and the gradient that comes in, and with one norm the input's gradient too.
void add_block(TensorRounds& rounds, Residual residual, double pairs, BackwardVisit::Kind visit,
               bool output) {
  const bool sequential = residual == Residual::sequential;
  const double inputs = residual == Residual::parallel_shared ? 1 : pairs;
  const double outputs = sequential ? pairs : 1;
  if (visit == BackwardVisit::Kind::rebuild) return rounds.add(outputs, pairs, outputs);
  if (visit == BackwardVisit::Kind::rebuild_and_backward) {
    const double before_output = sequential ? 1 : 0;
    const double again = output ? outputs : before_output;
    rounds.add(again, pairs, again);
  }
  rounds.add(inputs, inputs + outputs, inputs);
}

/// Whether a pair of products is made again by itself: an MLP's, or a shared expert's.
bool shares_again(const MessageContext& c, const BlockSpec& b) {
  const RecomputedModules& again = c.shape.again;
  if (!b.moe) return again.mlp;
  return b.moe->shared_ffn > 0 && (again.moe || again.shared_experts);
}

TensorRounds tensor_rounds(const MessageContext& c) {
  TensorRounds rounds;
  const auto add = [&](std::int64_t layer, BackwardVisit::Kind kind) {
    const BlockSpec& b = c.problem.model.block(c.part.first_layer + layer);
    add_block(rounds, b.residual, shared_pairs(c, b), kind, makes_output_again(c.shape));
  };
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) {  // forward
    add(layer, BackwardVisit::Kind::rebuild);
  }
  for (const BackwardVisit& visit : c.visits()) {
    add(visit.layer, visit.kind);
  }
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) {
    if (shares_again(c, c.problem.model.block(c.part.first_layer + layer))) rounds.add(1, 1, 1);
  }
  rounds.operands = rounds.gathers;
  // The embedding's output; its gradient is gathered if it is wanted.
  if (c.part.first) rounds.add(1, c.shape.lora.freezes() ? 0 : 1, 1);
  if (c.part.last) rounds.add(1, 1, 1);
  return rounds;
}

/// What products take in 8 bits is gathered in them, by Transformer Engine.
double narrowed_share(const MessageContext& c) {
  if (c.shape.te.fp8 == Fp8Recipe::none) return 0;
  return 1 - static_cast<double>(bytes_of(DType::fp8)) / static_cast<double>(c.shape.e());
}

void add_tensor_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.tp == 1) return;
  const Party ranks = collect.party(c.candidate.tp, 1);
  const TensorRounds rounds = tensor_rounds(c);
  const double rows = static_cast<double>(c.shape.tokens());
  const double hidden = rows * static_cast<double>(c.shape.hidden * c.shape.e());
  if (c.shape.sp) {
    const double saved = rounds.operands * narrowed_share(c);
    collect.gather(q.waited, ranks, rounds.gathers, (rounds.gathers - saved) * hidden);
    collect.scatter_sum(q.waited, ranks, rounds.scatters, rounds.scatters * hidden);
  } else {
    collect.sum(q.waited, ranks, rounds.sums, rounds.sums * hidden);
  }
  // The loss: the largest logit of each row, and two sums.
  const LossChunks chunks = loss_chunks(c.shape.loss, c.shape.tokens());
  if (c.part.last) {
    collect.sum(q.waited, ranks, 2 * static_cast<double>(chunks.count),
                3 * rows * static_cast<double>(c.shape.c()));
  }
}

/// A stage between two others hands over twice in a micro-batch, forwards and backwards at once. Of
/// stages with several chunks the last one's output goes to the first.
void add_pipeline_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.pp == 1) return;
  const int chunks = c.candidate.vpp;
  const double handovers = 2 * chunks - (c.part.first || c.part.last ? 1 : 0);
  const Party neighbours = collect.party(2, c.candidate.tp * c.candidate.data_ranks());
  collect.send(q.waited, neighbours, handovers,
               handovers * static_cast<double>(c.shape.local_unit()));
}

struct InBuckets {
  double buckets = 0, elements = 0;
};

InBuckets buckets_of(const FlatLayout& layout) {
  return {static_cast<double>(layout.buckets.size()), static_cast<double>(layout.numel)};
}

/// Frozen ones too.
InBuckets every_bucket(const MessageContext& c) {
  const InBuckets frozen = buckets_of(c.frozen), trained = buckets_of(c.layout);
  return {frozen.buckets + trained.buckets, frozen.elements + trained.elements};
}

/// What a micro-batch gathers, each bucket as often as its units are used, or once.
InBuckets gathered(const MessageContext& c) {
  if (c.sharding.gathering != Gathering::each_use) return every_bucket(c);
  std::vector<double> times(static_cast<std::size_t>(c.part.head_unit()) + 1, 0);
  const auto unit = [&](std::int64_t layer) -> double& {
    return times[static_cast<std::size_t>(c.part.block_unit(c.part.first_layer + layer))];
  };
  times.front() = c.part.first ? 1 : 0;
  times.back() = c.part.last ? 1 : 0;
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) unit(layer) += 1;
  for (const auto& visit : c.visits()) {
    unit(visit.layer) += 1;
  }
  InBuckets all;
  for (const FlatLayout* layout : {&c.frozen, &c.layout}) {
    for (std::size_t unit = 0; unit < std::min(times.size(), layout->read_by.size()); ++unit) {
      for (const std::size_t bucket : layout->read_by[unit]) {
        all.buckets += times[unit];
        all.elements += times[unit] * static_cast<double>(layout->buckets[bucket].numel);
      }
    }
  }
  return all;
}

/// What the tensor ranks sum, each having made a part of it.
InBuckets partial_gradients(const FlatLayout& layout) {
  InBuckets all;
  for (const FlatBucket& bucket : layout.buckets) {
    if (bucket.partial_numel == 0) continue;
    all.buckets += 1;
    all.elements += static_cast<double>(bucket.partial_numel);
  }
  return all;
}

/// Ranks that hold the same part of the model, in groups of shards of it.
struct DataRanks {
  int all, shards;
  int stride;  ///< from one to the next
};

DataRanks data_ranks(const Candidate& c) { return {c.data_ranks(), shard_ranks(c), c.tp}; }
DataRanks expert_ranks(const Candidate& c) {
  return {c.expert_data_ranks(), expert_shard_ranks(c), c.ep * c.etp};
}

/// Weights of the shards: of every unit in each micro-batch, or once per step.
void add_gathering(StageQuantities& q, const MessageContext& c, const Collector& collect,
                   const Party& shard) {
  const auto gather = [&](std::vector<Messages>& to, const InBuckets& all) {
    const double e = static_cast<double>(bytes_of(c.sharding.gathered));
    collect.gather(to, shard, all.buckets, e * all.elements);
  };
  switch (c.sharding.gathering) {
    case Gathering::none:
      return;
    case Gathering::after_step:
      return gather(q.messages, buckets_of(c.layout));
    case Gathering::each_step:
      return gather(q.messages, every_bucket(c));
    case Gathering::each_use:
    case Gathering::each_micro_batch:
      return gather(c.overlap ? q.beside : q.waited, gathered(c));
  }
}

void add_data_messages(StageQuantities& q, const MessageContext& c, const Collector& collect,
                       const DataRanks& ranks) {
  const double g = static_cast<double>(bytes_of(c.sharding.reduced));
  const auto [buckets, numel] = buckets_of(c.layout);
  const Party shard = collect.party(ranks.shards, ranks.stride);
  const Party replica = collect.party(ranks.all / ranks.shards, ranks.stride * ranks.shards);

  const bool per_micro_batch = c.sharding.each_micro_batch;
  auto& waited = per_micro_batch ? q.waited : q.messages;
  auto& hidden = !c.overlap ? waited : per_micro_batch ? q.beside : q.beside_last_backward;
  if (const InBuckets partial = partial_gradients(c.layout); partial.buckets > 0) {
    collect.sum(waited, collect.party(c.candidate.tp, 1), partial.buckets, g * partial.elements);
  }
  if (ranks.shards > 1) {
    collect.scatter_sum(hidden, shard, buckets, g * numel);
    collect.sum(waited, replica, buckets, g * numel / ranks.shards);
  } else {
    collect.sum(hidden, replica, buckets, g * numel);
  }
  add_gathering(q, c, collect, shard);
}

/// Experts that have buffers of their own are nobody else's.
void add_messages_of_experts(StageQuantities& q, const MessageContext& c,
                             const Collector& collect) {
  static const FlatLayout kNone;
  if (c.experts.buckets.empty()) return;
  const MessageContext apart{c.problem, c.candidate, c.part,      c.shape,   c.experts,
                             kNone,     kNone,       c.transport, c.overlap, c.sharding};
  add_data_messages(q, apart, collect, expert_ranks(c.candidate));
}

/// With a loss scale all ranks agree on whether a step is taken.
void add_agreement_message(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.problem.workload.recipe.compute != DType::fp16) return;
  collect.sum(q.messages, collect.party(static_cast<int>(c.candidate.world()), 1), 1, 4);
}

/// The first and the last stage sum the gradient of a tied head.
void add_embedding_message(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (!shares_embedding(c.problem.model, c.part)) return;
  const Party ends =
      collect.party(2, c.candidate.tp * c.candidate.data_ranks() * (c.candidate.pp - 1));
  const double g = static_cast<double>(bytes_of(c.sharding.reduced));
  for (const FlatBucket& bucket : c.layout.buckets) {
    if (!bucket.shared) continue;
    const std::int64_t slice = bucket.numel / c.layout.ranks;  // what a shard holds, exactly
    collect.sum(q.messages, ends, 1, g * static_cast<double>(slice));
  }
}

}  // namespace

void add_messages(StageQuantities& stage, const MessageContext& context) {
  const Collector collect(context.problem.cluster, context.transport);
  add_tensor_messages(stage, context, collect);
  add_context_messages(stage, context, collect);
  add_expert_messages(stage, context, collect);
  add_pipeline_messages(stage, context, collect);
  add_data_messages(stage, context, collect, data_ranks(context.candidate));
  add_messages_of_experts(stage, context, collect);
  add_embedding_message(stage, context, collect);
  add_agreement_message(stage, context, collect);
}

}  // namespace planwright::estimator
