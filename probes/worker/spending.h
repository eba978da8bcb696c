#pragma once

#include "estimator/spec/time_split.h"

/// What this process's time goes into. One thread computes and waits; the clock is its own.
namespace planwright::worker {

enum class Spending { compute, recompute, communication, bubble, optimizer };

/// Time within belongs to `kind`, but for what an inner scope takes; outside all it is compute.
class SpendingScope {
 public:
  explicit SpendingScope(Spending kind);
  ~SpendingScope();
  SpendingScope(const SpendingScope&) = delete;
  SpendingScope& operator=(const SpendingScope&) = delete;

 private:
  Spending before_;
};

/// Since the last call.
TimeSplit take_spent_time();

}  // namespace planwright::worker
