#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/spec/ledger.h"

/// What is alive when: scripts of allocations and releases, and the peaks of running them.
namespace planwright::estimator {

/// A tensor as a script knows it. The same value is made in one script and dropped in another.
struct Tensor {
  const char* name = "";
  std::int64_t bytes = 0;
  Account account = Account::activations;
};

struct Event {
  enum class Kind {
    make,  ///< a tensor is allocated
    drop,  ///< a tensor is released
    into,  ///< what `name` says is written into the storage of a live tensor; nothing is allocated
    call,  ///< an operator runs and has `bytes` of workspace until it returns
  };
  Kind kind = Kind::make;
  const char* name = "";
  Account account = Account::activations;
  std::int64_t bytes = 0;
  bool scratch = false;  ///< call: the library takes scratch besides, of a size it alone knows
};

/// An ordered list of events, written like the page it was taken from.
class Script {
 public:
  Script& make(const Tensor& tensor);
  Script& drop(const Tensor& tensor);
  Script& into(const Tensor& storage, const char* name);
  Script& call(const char* name, std::int64_t workspace, bool scratch);
  Script& append(const Script& other);

  const std::vector<Event>& events() const { return events_; }

 private:
  std::vector<Event> events_;
};

/// The largest instants of one phase; see PhaseBytes.
struct Peaks {
  Ledger tensors, kernels;
  std::optional<Ledger> product;
  bool operator==(const Peaks&) const = default;
};

/// Runs scripts from an empty device and keeps the peaks of the phase it is in.
class Simulator {
 public:
  /// Begins a phase: what is alive now is its first instant.
  void enter();
  void run(const Script& script);
  /// Runs the script `count` times over. Every round shifts the live bytes by the same amount, so
  /// the largest round is the last one if it grows and the first one if it shrinks: only that one
  /// is looked at event by event.
  void repeat(const Script& script, std::int64_t count);

  const Ledger& live() const { return live_; }
  const Peaks& peaks() const { return peaks_; }

 private:
  void step(const Event& event);
  void look(std::int64_t workspace, bool scratch);

  Ledger live_;
  std::int64_t total_ = 0;
  Peaks peaks_;
  std::int64_t tensors_total_ = 0, kernels_total_ = 0, product_total_ = 0;
};

}  // namespace planwright::estimator
