#pragma once

#include <string>

#include "estimator/spec/trial.h"

namespace planwright::search {

/// So many plans that fail alike, before anything was measured, are no fault of theirs: a script
/// that is not there, a flag that it does not know.
constexpr int kFailuresAlike = 3;

/// Failures one behind the other that say the same but for numbers and paths.
class Streak {
 public:
  void add(const Trial& trial);
  int length() const { return length_; }

 private:
  std::string said_;
  int length_ = 0;
};

}  // namespace planwright::search
