#include "estimator/liveness.h"

#include <gtest/gtest.h>

namespace planwright::estimator {
namespace {

constexpr Tensor kSmall{"small", 10, Account::activations};
constexpr Tensor kLarge{"large", 100, Account::logits};

TEST(Simulator, TakesThePeakOverInstantsNotTheSumOfWhatWasEverAlive) {
  Simulator simulator;
  simulator.enter();
  simulator.run(Script().make(kLarge).drop(kLarge).make(kSmall));
  EXPECT_EQ(simulator.peaks().tensors.allocated(), Bytes{100});
  EXPECT_EQ(simulator.peaks().tensors[Account::activations], Bytes{0});
  EXPECT_EQ(simulator.live().allocated(), Bytes{10});
}

TEST(Simulator, WritingIntoALiveTensorAllocatesNothing) {
  Simulator simulator;
  simulator.enter();
  simulator.run(Script().make(kSmall).into(kSmall, "gradient").drop(kSmall));
  EXPECT_EQ(simulator.peaks().tensors.allocated(), Bytes{10});
  EXPECT_EQ(simulator.live(), Ledger{});
}

TEST(Simulator, WorkspaceOfACallCountsWhileItRunsAndNotAsATensor) {
  Simulator simulator;
  simulator.enter();
  simulator.run(Script().make(kSmall).call("attention", 7, false).drop(kSmall));
  EXPECT_EQ(simulator.peaks().tensors.allocated(), Bytes{10});
  EXPECT_EQ(simulator.peaks().kernels.allocated(), Bytes{17});
  EXPECT_EQ(simulator.peaks().kernels[Account::workspace], Bytes{7});
  EXPECT_FALSE(simulator.peaks().product.has_value());
}

TEST(Simulator, TheLargestInstantWithUnknownScratchIsKeptApart) {
  Simulator simulator;
  simulator.enter();
  simulator.run(Script()
                    .make(kLarge)
                    .drop(kLarge)
                    .call("product", 0, true)
                    .make(kSmall)
                    .call("product", 0, true)
                    .drop(kSmall)
                    .call("product", 0, true));
  EXPECT_EQ(simulator.peaks().kernels.allocated(), Bytes{100});
  EXPECT_EQ(simulator.peaks().product.value().allocated(), Bytes{10});
}

TEST(Simulator, APhaseBeginsWithWhatIsAlive) {
  Simulator simulator;
  simulator.enter();
  simulator.run(Script().make(kLarge));
  simulator.enter();
  simulator.run(Script().drop(kLarge).make(kSmall));
  EXPECT_EQ(simulator.peaks().tensors.allocated(), Bytes{100});
}

TEST(Simulator, RepeatingEqualsRunningTheScriptThatOften) {
  const Script growing = Script().make(kLarge).make(kSmall).call("x", 3, true).drop(kLarge);
  const Script shrinking = Script().make(kLarge).drop(kSmall).call("x", 4, true).drop(kLarge);
  for (const int count : {0, 1, 2, 7}) {
    Simulator stepped, repeated;
    for (Simulator* each : {&stepped, &repeated}) each->enter();
    for (int i = 0; i < count; ++i) stepped.run(growing);
    repeated.repeat(growing, count);
    EXPECT_EQ(stepped.peaks(), repeated.peaks()) << count;
    for (Simulator* each : {&stepped, &repeated}) each->enter();
    for (int i = 0; i < count; ++i) stepped.run(shrinking);
    repeated.repeat(shrinking, count);
    EXPECT_EQ(stepped.peaks(), repeated.peaks()) << count;
    EXPECT_EQ(stepped.live(), repeated.live()) << count;
  }
}

TEST(Script, AppendingKeepsTheOrder) {
  const Script script = Script().make(kSmall).append(Script().make(kLarge).drop(kSmall));
  ASSERT_EQ(script.events().size(), 3u);
  EXPECT_EQ(script.events()[1].name, kLarge.name);
  EXPECT_EQ(script.events()[2].kind, Event::Kind::drop);
}

}  // namespace
}  // namespace planwright::estimator
