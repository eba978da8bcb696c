#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>
#include <vector>

#include "estimator/spec/pipeline.h"

namespace planwright {
namespace {

using Kind = PipelineStep::Kind;

/// "F0 B0 F1 B1", handovers left out.
std::string order_of(Schedule schedule, int stage, int stages, std::int64_t micro_batches) {
  std::string text;
  for (const PipelineStep& step : pipeline_steps(schedule, stage, stages, micro_batches)) {
    if (step.kind == Kind::handover) continue;
    text += (text.empty() ? "" : " ") + std::string(step.kind == Kind::forward ? "F" : "B") +
            std::to_string(step.micro_batch);
  }
  return text;
}

TEST(PipelineSteps, AreThoseOfTheSchedules) {
  EXPECT_EQ(order_of(Schedule::one_f_one_b, 0, 1, 2), "F0 B0 F1 B1");
  EXPECT_EQ(order_of(Schedule::gpipe, 0, 2, 3), "F0 F1 F2 B0 B1 B2");
  EXPECT_EQ(order_of(Schedule::one_f_one_b, 0, 3, 4), "F0 F1 F2 B0 F3 B1 B2 B3");
  EXPECT_EQ(order_of(Schedule::one_f_one_b, 1, 3, 4), "F0 F1 B0 F2 B1 F3 B2 B3");
  EXPECT_EQ(order_of(Schedule::one_f_one_b, 2, 3, 4), "F0 B0 F1 B1 F2 B2 F3 B3");
  EXPECT_EQ(order_of(Schedule::one_f_one_b, 0, 4, 2), "F0 F1 B0 B1") << "fewer than fill it";
}

std::string interleaved_order(int stage, int stages, int chunks, std::int64_t micro_batches) {
  std::string text;
  for (const PipelineStep& step : interleaved_steps(stage, stages, chunks, micro_batches)) {
    if (step.kind == Kind::handover) continue;
    text += (text.empty() ? "" : " ") + std::string(step.kind == Kind::forward ? "F" : "B") +
            std::to_string(step.micro_batch) + static_cast<char>('a' + step.chunk);
  }
  return text;
}

TEST(InterleavedSteps, GoInGroupsThroughTheChunks) {
  EXPECT_EQ(interleaved_order(1, 2, 2, 2), "F0a F1a F0b B0b F1b B1b B0a B1a");
  EXPECT_EQ(interleaved_order(0, 2, 2, 2), "F0a F1a F0b F1b B0b B1b B0a B1a");
  EXPECT_EQ(interleaved_order(1, 2, 2, 4),
            "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

TEST(InterleavedSteps, FillAsManyChunksAsMegatronDoes) {
  for (int stage = 0; stage < 4; ++stage) {
    int begun = 0;
    for (const PipelineStep& step : interleaved_steps(stage, 4, 3, 8)) {
      if (step.kind == Kind::backward) break;
      begun += step.kind == Kind::forward ? 1 : 0;
    }
    EXPECT_EQ(begun, 2 * (4 - stage - 1) + (3 - 1) * 4 + 1) << stage;
  }
}

/// Each chunk but the first of all gets what the one before it sends, and backwards.
TEST(InterleavedSteps, SendAndReceiveForEachChunk) {
  for (int stage = 0; stage < 4; ++stage) {
    int in = 0, out = 0, back_in = 0, back_out = 0;
    for (const PipelineStep& step : interleaved_steps(stage, 4, 3, 8)) {
      in += step.handover.receive_forward ? 1 : 0;
      out += step.handover.send_forward ? 1 : 0;
      back_in += step.handover.receive_backward ? 1 : 0;
      back_out += step.handover.send_backward ? 1 : 0;
    }
    EXPECT_EQ(in, stage == 0 ? 16 : 24);
    EXPECT_EQ(out, stage == 3 ? 16 : 24);
    EXPECT_EQ(back_in, out);
    EXPECT_EQ(back_out, in);
  }
}

TEST(PipelineSteps, OfOneStageHandNothingOver) {
  for (const PipelineStep& step : pipeline_steps(Schedule::one_f_one_b, 0, 1, 3)) {
    EXPECT_NE(step.kind, Kind::handover);
  }
}

TEST(InFlight, IsWhatAStageHasBegunBeforeItsFirstBackward) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    for (int stage = 0; stage < 4; ++stage) {
      for (const std::int64_t micro_batches : {1, 3, 9}) {
        std::int64_t begun = 0;
        for (const PipelineStep& step : pipeline_steps(schedule, stage, 4, micro_batches)) {
          if (step.kind == Kind::backward) break;
          begun += step.kind == Kind::forward ? 1 : 0;
        }
        EXPECT_EQ(begun, in_flight(schedule, stage, 4, micro_batches));
      }
    }
  }
}

/// Plays all stages at once. A handover waits until both its neighbours have come to the one that
/// answers it, as sends and receives do that are not buffered.
class Players {
 public:
  Players(Schedule schedule, int stages, std::int64_t micro_batches) {
    for (int stage = 0; stage < stages; ++stage) {
      const auto steps = pipeline_steps(schedule, stage, stages, micro_batches);
      left_.emplace_back(steps.begin(), steps.end());
    }
  }

  /// False if everyone waits for ever.
  bool finish() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t stage = 0; stage < left_.size(); ++stage) moved |= advance(stage);
    }
    return std::all_of(left_.begin(), left_.end(), [](const auto& steps) { return steps.empty(); });
  }

 private:
  bool advance(std::size_t stage) {
    auto& steps = left_[stage];
    if (steps.empty()) return false;
    PipelineStep& step = steps.front();
    if (step.kind != Kind::handover) {
      steps.pop_front();
      return true;
    }
    const bool posted = post(stage, step.handover);
    if (step.handover.any()) return posted;
    steps.pop_front();
    return true;
  }

  /// Carries out what the other side is ready for.
  bool post(std::size_t stage, Handover& h) {
    bool done = false;
    const auto meet = [&](bool& here, std::size_t other, bool Handover::*there) {
      if (!here || left_[other].empty()) return;
      PipelineStep& step = left_[other].front();
      if (step.kind != Kind::handover || !(step.handover.*there)) return;
      here = step.handover.*there = false;
      done = true;
    };
    meet(h.send_forward, stage + 1, &Handover::receive_forward);
    meet(h.receive_backward, stage + 1, &Handover::send_backward);
    return done;
  }

  std::vector<std::deque<PipelineStep>> left_;
};

TEST(PipelineSteps, NeverWaitForEachOtherForEver) {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b}) {
    for (const int stages : {1, 2, 3, 5, 8}) {
      for (const std::int64_t micro_batches : {1, 2, 4, 8, 17}) {
        EXPECT_TRUE(Players(schedule, stages, micro_batches).finish())
            << word(schedule) << " " << stages << " " << micro_batches;
      }
    }
  }
}

}  // namespace
}  // namespace planwright
