#include "estimator/tape_graph.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "estimator/tape_ops.h"

namespace planwright::estimator::tape {
namespace {

/// "+add -x": what is made and dropped, in order.
std::string told(const Script& script) {
  std::string text;
  for (const Event& event : script.events()) {
    const char* sign = event.kind == Event::Kind::make ? "+" : "-";
    text += (text.empty() ? "" : " ") + std::string(sign) + event.name;
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
