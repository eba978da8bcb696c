#include "estimator/torch_stages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace planwright::estimator {
namespace {

using Kind = TorchStageAction::Kind;

/// F, B, I and W, chunk and micro-batch.
std::string text_of(Schedule schedule, int rank, int ranks, int chunks, std::int64_t batches) {
  static const std::map<Kind, char> kLetters{{Kind::forward, 'F'},
                                             {Kind::backward, 'B'},
                                             {Kind::backward_of_input, 'I'},
                                             {Kind::backward_of_weights, 'W'}};
  std::string text;
  for (const TorchStageAction& each : torch_stage_actions(schedule, rank, ranks, chunks, batches)) {
    if (!text.empty()) text += ' ';
    text += kLetters.at(each.kind);
    text += std::to_string(each.chunk) + '.' + std::to_string(each.micro_batch);
  }
  return text;
}

TEST(TorchStages, OfOneStageARank) {
  EXPECT_EQ(text_of(Schedule::gpipe, 0, 2, 1, 3), "F0.0 F0.1 F0.2 B0.0 B0.1 B0.2");
  EXPECT_EQ(text_of(Schedule::one_f_one_b, 0, 2, 1, 3), "F0.0 F0.1 B0.0 F0.2 B0.1 B0.2");
  EXPECT_EQ(text_of(Schedule::one_f_one_b, 1, 2, 1, 3), "F0.0 B0.0 F0.1 B0.1 F0.2 B0.2");
}

/// What torch 2.11.0 itself lists for two ranks with two stages each, and four micro-batches:
/// _calculate_single_rank_operations of both schedules.
TEST(TorchStages, AreThoseThatTorchLists) {
  EXPECT_EQ(text_of(Schedule::interleaved, 0, 2, 2, 4),
            "F0.0 F0.1 F1.0 F1.1 F0.2 B1.0 F0.3 B1.1 F1.2 B0.0 F1.3 B0.1 B1.2 B1.3 B0.2 B0.3");
  EXPECT_EQ(text_of(Schedule::interleaved, 1, 2, 2, 4),
            "F0.0 F0.1 F1.0 B1.0 F1.1 B1.1 F0.2 B0.0 F0.3 B0.1 F1.2 B1.2 F1.3 B1.3 B0.2 B0.3");
  EXPECT_EQ(text_of(Schedule::zero_bubble, 0, 2, 2, 4),
            "F0.0 F0.1 F1.0 F1.1 I1.0 W1.0 F0.2 I1.1 W1.1 F0.3 I0.0 W0.0 F1.2 I0.1 W0.1 F1.3 I1.2 "
            "W1.2 I1.3 W1.3 I0.2 W0.2 I0.3 W0.3");
  EXPECT_EQ(text_of(Schedule::zero_bubble, 1, 2, 2, 4),
            "F0.0 F0.1 F1.0 I1.0 F1.1 I1.1 W1.0 F0.2 I0.0 W1.1 F0.3 I0.1 W0.0 F1.2 I1.2 W0.1 F1.3 "
            "I1.3 W1.2 I0.2 W1.3 I0.3 W0.2 W0.3");
}

/// Micro-batches that no rounds of as many as there are ranks add up to: two rounds of five.
TEST(TorchStages, TakeRoundsOfEqualSize) {
  EXPECT_EQ(torch_round(4, 10), 5);
  EXPECT_EQ(torch_round(4, 8), 4);
  EXPECT_EQ(torch_round(4, 3), 3);
}

/// Inputs and gradients of outputs of two chunks, but for the model's input and the loss; with a
/// backward in two the gradients of inputs as well.
TEST(TorchStages, HaveBuffers) {
  for (const auto& [schedule, first, middle, last] :
       {std::tuple{Schedule::interleaved, 3, 4, 3}, {Schedule::zero_bubble, 4, 6, 5}}) {
    EXPECT_EQ(torch_buffers(schedule, 0, 3, 2), first);
    EXPECT_EQ(torch_buffers(schedule, 1, 3, 2), middle);
    EXPECT_EQ(torch_buffers(schedule, 2, 3, 2), last);
  }
  EXPECT_EQ(torch_buffers(Schedule::one_f_one_b, 0, 2, 1), 1);
  EXPECT_EQ(torch_buffers(Schedule::one_f_one_b, 1, 2, 1), 1);
}

TEST(TorchStages, ShowWhatRepeats) {
  EXPECT_EQ(torch_shown(Schedule::gpipe, 0, 4, 1, 64), 64);
  EXPECT_EQ(torch_shown(Schedule::one_f_one_b, 1, 4, 1, 64), 5);
  EXPECT_EQ(torch_shown(Schedule::zero_bubble, 1, 4, 2, 64), 12);
  EXPECT_EQ(torch_shown(Schedule::interleaved, 1, 4, 2, 8), 8);
}

struct InFlight {
  std::int64_t most = 0, waiting_for_weights = 0;
};

/// Micro-batches of any chunk whose forward is done and whose backward is not, and of those with a
/// backward of the input the ones that still owe the weights'.
InFlight in_flight_of(Schedule schedule, int rank, int ranks, int chunks, std::int64_t batches) {
  InFlight all;
  std::int64_t now = 0, owing = 0;
  for (const auto& each : torch_stage_actions(schedule, rank, ranks, chunks, batches)) {
    if (each.kind == Kind::forward) ++now;
    if (each.kind == Kind::backward || each.kind == Kind::backward_of_weights) --now;
    if (each.kind == Kind::backward_of_input) ++owing;
    if (each.kind == Kind::backward_of_weights) --owing;
    all.most = std::max(all.most, now);
    all.waiting_for_weights = std::max(all.waiting_for_weights, owing);
  }
  EXPECT_EQ(now, 0);
  return all;
}

/// Of p ranks with v chunks and whole rounds rank r has (v - 1) p + 2 (p - 1 - r) + 1 in flight.
/// Where backward is in two, a hop costs one and not two, and as many as the rank's number and the
/// one at work wait for their weights.
TEST(TorchStages, KeepAsManyInFlightAsTheScheduleSays) {
  constexpr int kRanks = 4, kChunks = 2;
  for (int rank = 0; rank < kRanks; ++rank) {
    const int hops = kRanks - 1 - rank, first = (kChunks - 1) * kRanks;
    const InFlight plain = in_flight_of(Schedule::interleaved, rank, kRanks, kChunks, 16);
    EXPECT_EQ(plain.most, first + 2 * hops + 1) << rank;
    EXPECT_EQ(plain.waiting_for_weights, 0) << rank;
    const InFlight in_two = in_flight_of(Schedule::zero_bubble, rank, kRanks, kChunks, 16);
    EXPECT_EQ(in_two.most, first + hops + rank + 1) << rank;
    EXPECT_EQ(in_two.waiting_for_weights, rank + 1) << rank;
  }
}

}  // namespace
}  // namespace planwright::estimator
