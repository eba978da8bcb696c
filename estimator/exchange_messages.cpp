#include "estimator/exchange_messages.h"

namespace planwright::estimator {
namespace {

/// Forwards of each block in a micro-batch, on average.
double forwards(const MessageContext& c) {
  double blocks = static_cast<double>(c.part.layers);
  for (const BackwardVisit& visit : c.visits()) {
    if (visit.kind != BackwardVisit::Kind::backward) blocks += 1;
  }
  return blocks / static_cast<double>(c.part.layers);
}

/// Elements that a rank has of a block's queries, keys and values, and of what attention gives.
struct AttentionElements {
  double queries, keys_and_values, outputs;
};

AttentionElements attention_elements(const MessageContext& c, const BlockSpec& b) {
  const auto own = [&](std::int64_t width) {
    return static_cast<double>(c.shape.tokens() * width) / c.candidate.tp;
  };
  if (!b.latent) {
    return {own(b.heads * b.head_dim), own(2 * b.kv_heads * b.head_dim), own(b.heads * b.head_dim)};
  }
  const std::int64_t head = b.latent->nope_dim + b.latent->rope_dim, value = b.latent->value_dim;
  return {own(b.heads * head), own(b.heads * (head + value)), own(b.heads * value)};
}

/// All ranks' keys and values are gathered, in a backward as well, where sums of their gradients in
/// fp32 go once round. See estimator/torch_ring.
void add_gathered(StageQuantities& q, const MessageContext& c, const Collector& collect,
                  const Party& party, const AttentionElements& own, double times) {
  const double ranks = party.ranks;
  const double all = ranks * own.keys_and_values * static_cast<double>(c.shape.e());
  collect.gather(q.waited, party, times, times * all);
  collect.send(q.waited, party, ranks,
               ranks * own.keys_and_values * static_cast<double>(bytes_of(DType::fp32)));
}

/// Keys and values go on to each other rank while those that are there are attended to; in backward
/// again, and with them, one step later, their gradients, which go all the way round. Source:
/// NVIDIA/TransformerEngine transformer_engine/pytorch/attention/dot_product_attention/
/// context_parallel.py, AttnFuncWithCPAndKVP2P @ v2.11, as attention is not in 8 bits.
void add_ring(StageQuantities& q, const MessageContext& c, const Collector& collect,
              const Party& party, const AttentionElements& own, double times) {
  const double ranks = party.ranks;
  const double pair = own.keys_and_values * static_cast<double>(c.shape.e());
  collect.send(q.beside_attention, party, times * (ranks - 1) + ranks,
               (times + 2) * (ranks - 1) * pair);
}

/// Queries, keys and values each, and what comes of them; in backward their gradients. Source: the
/// same file, AttnFuncWithCPAndQKVOA2A.
void add_exchanged(StageQuantities& q, const MessageContext& c, const Collector& collect,
                   const Party& party, const AttentionElements& own, double times) {
  const double bytes =
      (own.queries + own.keys_and_values + own.outputs) * static_cast<double>(c.shape.e());
  collect.exchange(q.waited, party, 4 * (times + 1), (times + 1) * bytes);
}

struct Routed {
  double tokens;  ///< rows that a rank has
  double sent;    ///< of them as many as go to experts
  double e;       ///< bytes of a row
};

Routed routed(const MessageContext& c, const MoeSpec& moe) {
  const auto tokens = static_cast<double>(c.shape.local_tokens());
  return {tokens, tokens * static_cast<double>(moe.top_k),
          static_cast<double>(c.shape.hidden * c.shape.e())};
}

constexpr double kProbability = 4;  ///< bytes, fp32

/// Tokens go to their experts and come back, forwards and backwards: as many bytes as each is sent
/// to experts times. See estimator/torch_experts.
void add_torch_experts(StageQuantities& q, const MessageContext& c, const Collector& collect,
                       const MoeSpec& moe, double times) {
  const Party party = collect.party(c.candidate.ep, c.candidate.tp);
  const auto rows = static_cast<double>(c.shape.tokens() * moe.top_k * c.shape.hidden);
  const double count = 2 * times;
  collect.exchange(q.waited, party, count, count * rows * static_cast<double>(c.shape.e()));
}

/// Rows go to their experts with a probability each, and come back; over experts that are spread
/// themselves all ranks of one gather the rows, and sum the results. In backward the reverse.
/// Source: NVIDIA/Megatron-LM megatron/core/transformer/moe/token_dispatcher.py,
/// MoEAlltoAllTokenDispatcher @ core_v0.14.0, without overlap.
void add_sent(StageQuantities& q, const MessageContext& c, const Collector& collect,
              const Routed& rows, double times) {
  const Party experts = collect.party(c.candidate.ep, c.candidate.etp);
  const Party parts = collect.party(c.candidate.etp, 1);
  const double bytes = rows.sent * rows.e, whole = bytes * c.candidate.etp;
  collect.exchange(q.waited, experts, 3 * times, times * (2 * bytes + rows.sent * kProbability));
  collect.gather(q.waited, parts, times, times * whole);
  collect.scatter_sum(q.waited, parts, times, times * whole);
}

/// All ranks' rows are gathered, and the results summed. Source: the same file,
/// MoEAllGatherTokenDispatcher.
void add_gathered_rows(StageQuantities& q, const MessageContext& c, const Collector& collect,
                       const Routed& rows, double times) {
  const Party all = collect.party(c.candidate.ep * c.candidate.etp, 1);
  const double whole = rows.tokens * rows.e * all.ranks;
  collect.gather(q.waited, all, times, times * whole);
  collect.scatter_sum(q.waited, all, times, times * whole);
}

}  // namespace

void add_context_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.cp == 1) return;
  const Party party = collect.party(c.candidate.cp, c.candidate.tp);
  const double runs = forwards(c), times = runs + (c.shape.again.core_attn ? 1 : 0);
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) {
    const BlockSpec& block = c.problem.model.block(c.part.first_layer + layer);
    const AttentionElements own = attention_elements(c, block);
    if (c.shape.kernels == KernelSet::torch_modules) {
      add_gathered(q, c, collect, party, own, runs + 1);
    } else if (c.shape.exchange == Exchange::ring) {
      add_ring(q, c, collect, party, own, times);
    } else {
      add_exchanged(q, c, collect, party, own, times);
    }
  }
}

void add_expert_messages(StageQuantities& q, const MessageContext& c, const Collector& collect) {
  if (c.candidate.ep * c.candidate.etp == 1) return;
  const double times = forwards(c) + 1 + (c.shape.again.moe ? 1 : 0);
  for (std::int64_t layer = 0; layer < c.part.layers; ++layer) {
    const auto& moe = c.problem.model.block(c.part.first_layer + layer).moe;
    if (!moe) continue;
    if (c.shape.kernels == KernelSet::torch_modules) {
      add_torch_experts(q, c, collect, *moe, times);
    } else if (c.shape.te.gathers_tokens) {
      add_gathered_rows(q, c, collect, routed(c, *moe), times);
    } else {
      add_sent(q, c, collect, routed(c, *moe), times);
    }
  }
}

}  // namespace planwright::estimator
