#include "probes/worker/spending.h"

#include "probes/worker/clock.h"

namespace planwright::worker {
namespace {

struct Clock {
  Spending now = Spending::compute;
  double since = 0;
  TimeSplit spent;

  Seconds& of(Spending kind) {
    switch (kind) {
      case Spending::recompute:
        return spent.recompute;
      case Spending::communication:
        return spent.communication;
      case Spending::bubble:
        return spent.bubble;
      case Spending::optimizer:
        return spent.optimizer;
      case Spending::compute:
        break;
    }
    return spent.compute;
  }

  void turn_to(Spending kind) {
    const double time = monotonic_s();
    of(now) += Seconds{time - since};
    since = time;
    now = kind;
  }
};

Clock& the_clock() {
  static Clock instance;
  return instance;
}

}  // namespace

SpendingScope::SpendingScope(Spending kind) : before_(the_clock().now) {
  the_clock().turn_to(kind);
}
SpendingScope::~SpendingScope() { the_clock().turn_to(before_); }

TimeSplit take_spent_time() {
  the_clock().turn_to(the_clock().now);
  const TimeSplit spent = the_clock().spent;
  the_clock().spent = {};
  return spent;
}

}  // namespace planwright::worker
