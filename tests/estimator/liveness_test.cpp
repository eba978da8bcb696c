#include "estimator/liveness.h"

#include <gtest/gtest.h>

#include <utility>

namespace planwright::estimator {
namespace {

constexpr Tensor kSmall{"small", 10, Account::activations};
constexpr Tensor kLarge{"large", 100, Account::logits};

TEST(Simulator, TakesThePeakOverInstantsNotTheSumOfWhatWasEverAlive) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kLarge).drop(kLarge).make(kSmall));
  EXPECT_EQ(simulator.peaks(Phase::forward).tensors.allocated(), Bytes{100});
  EXPECT_EQ(simulator.peaks(Phase::forward).tensors[Account::activations], Bytes{0});
  EXPECT_EQ(simulator.live().allocated(), Bytes{10});
}

TEST(Simulator, WritingIntoALiveTensorAllocatesNothing) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kSmall).into(kSmall, "gradient").drop(kSmall));
  EXPECT_EQ(simulator.peaks(Phase::forward).tensors.allocated(), Bytes{10});
  EXPECT_EQ(simulator.live(), Ledger{});
}

TEST(Simulator, WorkspaceOfACallCountsWhileItRunsAndNotAsATensor) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kSmall).call("attention", 7, false).drop(kSmall));
  EXPECT_EQ(simulator.peaks(Phase::forward).tensors.allocated(), Bytes{10});
  EXPECT_EQ(simulator.peaks(Phase::forward).kernels.allocated(), Bytes{17});
  EXPECT_EQ(simulator.peaks(Phase::forward).kernels[Account::workspace], Bytes{7});
  EXPECT_FALSE(simulator.peaks(Phase::forward).product.has_value());
}

TEST(Simulator, TheLargestInstantWithUnknownScratchIsKeptApart) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script()
                    .make(kLarge)
                    .drop(kLarge)
                    .call("product", 0, true)
                    .make(kSmall)
                    .call("product", 0, true)
                    .drop(kSmall)
                    .call("product", 0, true));
  EXPECT_EQ(simulator.peaks(Phase::forward).kernels.allocated(), Bytes{100});
  EXPECT_EQ(simulator.peaks(Phase::forward).product.value().allocated(), Bytes{10});
}

/// Page-locked memory comes in powers of two.
TEST(Simulator, CountsCopiesOnTheHostApart) {
  for (const bool page_locks : {false, true}) {
    Simulator simulator(page_locks);
    simulator.enter(Phase::forward);
    simulator.repeat(5, [&] { simulator.run(Script().send(kLarge)); });
    simulator.repeat(4, [&] { simulator.run(Script().fetch(kLarge)); });
    simulator.run(Script().forget(kLarge));
    EXPECT_EQ(simulator.copies(),
              (HostCopies{.here = 0, .most = page_locks ? 640 : 500, .sent = 500, .fetched = 400}));
    EXPECT_EQ(simulator.live(), Ledger{});
  }
}

TEST(Simulator, APhaseBeginsWithWhatIsAlive) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kLarge));
  simulator.enter(Phase::backward);
  simulator.run(Script().drop(kLarge).make(kSmall));
  EXPECT_EQ(simulator.peaks(Phase::backward).tensors.allocated(), Bytes{100});
}

TEST(Simulator, APhaseThatIsEnteredAgainKeepsItsLargestInstants) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kLarge).drop(kLarge));
  simulator.enter(Phase::backward);
  simulator.enter(Phase::forward);
  simulator.run(Script().make(kSmall));
  EXPECT_EQ(simulator.peaks(Phase::forward).tensors.allocated(), Bytes{100});
  EXPECT_EQ(simulator.peaks(Phase::backward).tensors, Ledger{});
}

TEST(Simulator, RepeatingEqualsRunningTheBodyThatOften) {
  const Script growing = Script().make(kLarge).make(kSmall).call("x", 3, true).drop(kLarge);
  const Script shrinking = Script().make(kLarge).drop(kSmall).call("x", 4, true).drop(kLarge);
  for (const int count : {0, 1, 2, 7}) {
    Simulator stepped, repeated;
    for (const auto& [phase, script] :
         {std::pair(Phase::forward, growing), std::pair(Phase::backward, shrinking)}) {
      stepped.enter(phase);
      repeated.enter(phase);
      for (int i = 0; i < count; ++i) stepped.run(script);
      repeated.repeat(count, [&, &script = script] { repeated.run(script); });
      EXPECT_EQ(stepped.peaks(phase), repeated.peaks(phase)) << count;
      EXPECT_EQ(stepped.live(), repeated.live()) << count;
    }
  }
}

/// Scripts of all kinds of events, which may drop what others have made.
std::vector<Script> mixed_scripts() {
  const auto small = [](Script script) { return script.make(kSmall).call("x", 7, true); };
  return {Script(),
          Script().drop(kLarge),
          Script().call("x", 5, false),
          Script().make(kSmall).make(kLarge).drop(kSmall),
          Script().drop(kSmall).call("x", 9, true).call("y", 9, false).make(kLarge).drop(kLarge),
          small(Script().make(kLarge).send(kLarge).drop(kLarge)).fetch(kLarge).make(kLarge),
          small(Script().drop(kSmall)).drop(kLarge).send(kSmall).forget(kSmall)};
}

TEST(Effect, IsAsRunningTheScriptWhereverItBegins) {
  const std::vector<Script> scripts = mixed_scripts();
  std::uint32_t seed = 1;
  const auto draw = [&](std::size_t from) {
    return ((seed = seed * 1664525u + 1013904223u) >> 8) % from;
  };
  for (int order = 0; order < 200; ++order) {
    const bool page_locks = order % 2 == 0;
    Simulator stepped(page_locks), at_once(page_locks);
    for (int i = 0; i < 12; ++i) {
      const auto phase = static_cast<Phase>(draw(kWordCount<Phase>));
      const Script& script = scripts[draw(scripts.size())];
      stepped.enter(phase);
      at_once.enter(phase);
      stepped.run(script);
      at_once.run(effect_of(script, page_locks));
      ASSERT_EQ(stepped.live(), at_once.live());
      ASSERT_EQ(stepped.copies(), at_once.copies());
      ASSERT_EQ(stepped.peaks(phase), at_once.peaks(phase)) << "order " << order << ", " << i;
    }
  }
}

TEST(Effect, OfNothingIsNoInstant) {
  Simulator simulator;
  simulator.enter(Phase::forward);
  simulator.run(Effect{});
  EXPECT_EQ(simulator.peaks(Phase::forward), Peaks{});
  EXPECT_EQ(simulator.copies(), HostCopies{});
}

TEST(Script, AppendingKeepsTheOrder) {
  const Script script = Script().make(kSmall).append(Script().make(kLarge).drop(kSmall));
  ASSERT_EQ(script.events().size(), 3u);
  EXPECT_EQ(script.events()[1].name, kLarge.name);
  EXPECT_EQ(script.events()[2].kind, Event::Kind::drop);
}

}  // namespace
}  // namespace planwright::estimator
