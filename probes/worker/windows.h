#pragma once

#include <cstdint>
#include <optional>

namespace planwright::worker {

/// When a unit's weights and gradients are there (spec/model_part.h says what a unit is). This one
/// is for those that always are.
class Windows {
 public:
  virtual ~Windows() = default;

  /// Before a unit's weights are read; `next` is the unit that comes after it.
  virtual void enter(std::int64_t /*unit*/, std::optional<std::int64_t> /*next*/) {}
  virtual void leave(std::int64_t /*unit*/) {}
  /// Before a unit's gradients are added to, and when they are complete.
  virtual void open_gradients(std::int64_t /*unit*/) {}
  virtual void complete_gradients(std::int64_t /*unit*/) {}
  /// After a micro-batch's backward.
  virtual void end_backward() {}
};

}  // namespace planwright::worker
