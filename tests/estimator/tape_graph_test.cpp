#include "estimator/tape_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimator/tape_ops.h"

namespace planwright::estimator::tape {
namespace {

const char* sign_of(Event::Kind kind) {
  switch (kind) {
    case Event::Kind::make:
      return "+";
    case Event::Kind::send:
      return ">";
    case Event::Kind::fetch:
      return "<";
    case Event::Kind::forget:
      return "~";
    default:
      return "-";
  }
}

/// "+add >x -x": what is made, copied to the host and dropped, in order.
std::string told(const Script& script) {
  std::string text;
  for (const Event& event : script.events()) {
    text += (text.empty() ? "" : " ") + std::string(sign_of(event.kind)) + event.name;
  }
  return text;
}

struct Recorded {
  Script script;
  Graph graph;

  explicit Recorded(Sums sums = Sums::in_place) : graph(sums) { graph.record(script); }
  Var given(const char* name, bool needs_gradient = true) {
    return graph.given(name, 8, DType::bf16, needs_gradient);
  }
};

TEST(TapeGraph, DropsAVariableThatNothingRefersTo) {
  Recorded r;
  {
    const Var x = r.given("x");
    const Var y = add(r.graph, x, x);  // saves nothing
  }
  EXPECT_EQ(told(r.script), "+add -add -x");
}

TEST(TapeGraph, KeepsWhatANodeSavedUntilItsBackwardHasRun) {
  Recorded r;
  Var x = r.given("x");
  const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
  Var y = silu(r.graph, x);
  x = {};
  EXPECT_EQ(told(r.script), "+silu") << "x is saved";
  const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
  EXPECT_EQ(told(r.script), "+silu -silu +silu -dy -x");
  EXPECT_EQ(dx.elements, 8);
}

/// What silu saved leaves when its module has run, and is there again before it goes back.
TEST(TapeGraph, SendsWhatAModuleSavedAndFetchesItForItsBackward) {
  Recorded r;
  Var x = r.given("x");
  const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
  const auto group = r.graph.enter(true, x);
  Var y = silu(r.graph, x);
  r.graph.exit(group);
  x = {};
  r.graph.commit(group, {});
  EXPECT_EQ(told(r.script), "+silu >x -x");
  const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
  EXPECT_EQ(told(r.script), "+silu >x -x -silu +x <x +silu -dy -x");
}

TEST(TapeGraph, FetchesTheGroupBeforeTheOneThatHasGoneBack) {
  Recorded r;
  Var x = r.given("x");
  const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
  Var y = x;
  x = {};
  for (int module = 0; module < 2; ++module) {
    const auto group = r.graph.enter(true, y);
    Var next = silu(r.graph, y);
    r.graph.exit(group);
    y = std::move(next);
    r.graph.commit(group, {});
  }
  EXPECT_EQ(told(r.script), "+silu >x -x +silu >silu -silu");
  Script back;
  r.graph.record(back);
  r.graph.reload();
  EXPECT_EQ(told(back), "+silu <silu") << "the last one";
  const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
  EXPECT_EQ(told(back), "+silu <silu -silu +silu -dy -silu +x <x +silu -silu -x");
}

TEST(TapeGraph, ReleasesWhateverStillRefersToIt) {
  Recorded r;
  Var x = r.given("x");
  const Var held = x;
  const auto group = r.graph.enter(true, x);
  const Var y = silu(r.graph, x);
  r.graph.exit(group);
  r.graph.commit(group, {held});
  EXPECT_EQ(told(r.script), "+silu >x -x");
}

TEST(TapeGraph, OfAGroupSmallTensorsStay) {
  Recorded r;
  r.graph.least_elements = 9;
  Var x = r.given("x");
  const auto group = r.graph.enter(true, x);
  const Var y = silu(r.graph, x);
  r.graph.exit(group);
  r.graph.commit(group, {});
  EXPECT_EQ(told(r.script), "+silu");
}

TEST(TapeGraph, CopiesEachTensorOnceWhereCopiesStay) {
  Recorded r;
  r.graph.copies_saved = true;
  Var x = r.given("x");
  const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
  Var y = mul(r.graph, x, x);
  x = {};
  EXPECT_EQ(told(r.script), "+mul >x");
  r.graph.copies_saved = false;
  const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
  EXPECT_EQ(told(r.script).substr(0, 15), "+mul >x -mul ~x") << told(r.script);
}

TEST(TapeGraph, SavesNothingWithoutGradients) {
  Recorded r;
  r.graph.gradients = false;
  Var x = r.given("x");
  const Var y = silu(r.graph, x);
  x = {};
  EXPECT_EQ(told(r.script), "+silu -x");
}

TEST(TapeGraph, SavesNothingOfWhatNeedsNone) {
  Recorded r;
  Var x = r.given("x", false);
  const Var y = silu(r.graph, x);
  x = {};
  EXPECT_EQ(told(r.script), "+silu -x");
}

/// x + silu(x): two gradients come to x.
TEST(TapeGraph, SumsGradientsInTheFirstOneIfNothingElseRefersToIt) {
  for (const Sums sums : {Sums::in_place, Sums::apart}) {
    Recorded r(sums);
    Var x = r.given("x");
    const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
    Var y = add(r.graph, silu(r.graph, x), silu(r.graph, x));
    x = {};
    Script backward;
    r.graph.record(backward);
    const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
    const bool made = told(backward).find("+sum") != std::string::npos;
    EXPECT_EQ(made, sums == Sums::apart) << told(backward);
  }
}

/// What is passed on is made once, by the first of the two, and dropped once, by the other.
TEST(TapeGraph, PassesOnTheNextTensorsOfItsAccount) {
  Recorded first;
  first.graph.gradients = false;
  first.graph.keep_next(1);
  {
    first.graph.make("of a weight", 8, DType::bf16, Account::parameters);
    first.graph.like("passed", first.given("x"));
    first.graph.make("own", 8, DType::bf16);
  }
  EXPECT_EQ(told(first.script), "+of a weight -of a weight +passed -x +own -own");
  Recorded second;
  second.graph.reuse_next(1);
  second.graph.make("passed", 8, DType::bf16);
  second.graph.make("own", 8, DType::bf16);
  EXPECT_EQ(told(second.script), "-passed +own -own");
}

/// What ran last is the first whose backward runs, whichever way its gradient came.
TEST(TapeGraph, RunsBackwardsFromTheLatest) {
  Recorded r;
  Var x = r.given("x");
  const Var leaf{.elements = x.elements, .type = x.type, .maker = x.maker};
  Var early = silu(r.graph, x), late = gelu(r.graph, x);
  Var y = add(r.graph, late, early);
  x = early = late = {};
  Script backward;
  r.graph.record(backward);
  const Var dx = r.graph.backward(std::move(y), r.given("dy"), leaf);
  const std::string order = told(backward);
  EXPECT_LT(order.find("+gelu"), order.find("+silu")) << order;
}

}  // namespace
}  // namespace planwright::estimator::tape
