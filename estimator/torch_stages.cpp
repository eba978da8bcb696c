#include "estimator/torch_stages.h"

#include <algorithm>

namespace planwright::estimator {
namespace {

using Action = TorchStageAction;
using Kind = TorchStageAction::Kind;

/// Forwards and backwards of ScheduleInterleaved1F1B and ScheduleInterleavedZeroBubble, counted
/// over a rank's chunks: _get_1f1b_rank_ops and _get_warmup_ops.
struct Rounds {
  int rank, ranks, chunks;
  std::int64_t micro_batches;
  bool in_two;

  std::int64_t round() const { return torch_round(ranks, micro_batches); }
  std::int64_t total() const { return micro_batches * chunks; }
  std::int64_t warmup() const {
    const std::int64_t each_hop = in_two ? 1 : 2;
    return std::min(round() * (chunks - 1) + each_hop * (ranks - 1 - rank), total());
  }
  int forward_chunk(std::int64_t turn) const { return static_cast<int>(turn / round() % chunks); }
  int backward_chunk(std::int64_t turn) const { return chunks - 1 - forward_chunk(turn); }
  std::int64_t micro_batch(std::int64_t turn) const {
    return turn / (round() * chunks) * round() + turn % round();
  }
  Action forward(std::int64_t turn) const {
    return {Kind::forward, forward_chunk(turn), micro_batch(turn)};
  }
  Action backward(Kind kind, std::int64_t turn) const {
    return {kind, backward_chunk(turn), micro_batch(turn)};
  }
};

std::vector<Action> in_rounds(const Rounds& rounds) {
  std::vector<Action> actions;
  const std::int64_t total = rounds.total(), warmup = rounds.warmup();
  // Backwards of weights follow as many turns behind as the rank's number.
  const std::int64_t behind = rounds.in_two ? rounds.rank : 0;
  for (std::int64_t turn = 0; turn < total + warmup; ++turn) {
    const std::int64_t back = turn - warmup;
    if (turn < total) actions.push_back(rounds.forward(turn));
    if (back < 0) continue;
    actions.push_back(
        rounds.backward(rounds.in_two ? Kind::backward_of_input : Kind::backward, back));
    if (rounds.in_two && back >= behind) {
      actions.push_back(rounds.backward(Kind::backward_of_weights, back - behind));
    }
  }
  for (std::int64_t back = std::max<std::int64_t>(0, total - behind); back < total; ++back) {
    if (rounds.in_two) actions.push_back(rounds.backward(Kind::backward_of_weights, back));
  }
  return actions;
}

/// Of a rank with one stage, `ahead` forwards before the first backward.
std::vector<Action> in_turn(std::int64_t ahead, std::int64_t micro_batches) {
  std::vector<Action> actions;
  for (std::int64_t i = 0; i < micro_batches + ahead - 1; ++i) {
    if (i < micro_batches) actions.push_back({Kind::forward, 0, i});
    if (i + 1 >= ahead) actions.push_back({Kind::backward, 0, i + 1 - ahead});
  }
  return actions;
}

}  // namespace

std::int64_t torch_round(int ranks, std::int64_t micro_batches) {
  return micro_batches / std::max<std::int64_t>(1, micro_batches / ranks);
}

std::int64_t torch_shown(Schedule schedule, int rank, int ranks, int chunks,
                         std::int64_t micro_batches) {
  constexpr int kRounds = 3;  // with two the pipeline is full
  if (schedule == Schedule::gpipe) return micro_batches;
  const std::int64_t shown =
      chunks > 1 ? kRounds * torch_round(ranks, micro_batches) : ranks - rank + 2;
  return std::min(micro_batches, shown);
}

int torch_buffers(Schedule schedule, int rank, int ranks, int chunks) {
  const int inputs = chunks - (rank == 0 ? 1 : 0), outputs = chunks - (rank == ranks - 1 ? 1 : 0);
  return (schedule == Schedule::zero_bubble ? 2 : 1) * inputs + outputs;
}

std::vector<TorchStageAction> torch_stage_actions(Schedule schedule, int rank, int ranks,
                                                  int chunks, std::int64_t micro_batches) {
  switch (schedule) {
    case Schedule::gpipe:
      return in_turn(micro_batches, micro_batches);
    case Schedule::one_f_one_b:
      return in_turn(std::min<std::int64_t>(ranks - rank, micro_batches), micro_batches);
    case Schedule::interleaved:
      return in_rounds({rank, ranks, chunks, micro_batches, false});
    case Schedule::zero_bubble:
      return in_rounds({rank, ranks, chunks, micro_batches, true});
  }
  return {};
}

}  // namespace planwright::estimator
