#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
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
    make,   ///< a tensor is allocated
    drop,   ///< a tensor is released
    into,   ///< what `name` says is written into the storage of a live tensor; nothing is allocated
    call,   ///< an operator runs and has `bytes` of workspace until it returns
    send,   ///< a live tensor is copied to the host's memory, where the copy stays until it is
    fetch,  ///< copied back to a tensor that has been allocated for it, or
    forget,  ///< goes, because the tensor is still there
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
  Script& send(const Tensor& tensor);
  Script& fetch(const Tensor& tensor);
  Script& forget(const Tensor& tensor);
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

/// Copies of tensors in the host's memory: bytes that they take there, now and at most, and bytes
/// that have gone there and come back.
struct HostCopies {
  std::int64_t here = 0, most = 0, sent = 0, fetched = 0;
  bool operator==(const HostCopies&) const = default;
};

/// A tensor that a script makes, and what is alive just after it.
struct Instant {
  const char* name = "";
  Phase phase = Phase::load;
  Account account = Account::activations;
  std::int64_t bytes = 0;
  std::int64_t tensors = 0;
};

/// The largest instants so far, the first of equals, and what is alive at them in all.
struct Largest {
  /// Below whatever may be alive, and so far from the end that it can be added to.
  static constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::min() / 2;

  Peaks peaks;
  std::int64_t tensors_total = 0, kernels_total = 0, product_total = 0;

  void look(const Ledger& live, std::int64_t total, std::int64_t workspace, bool scratch);
  /// Those of a script that begins with `live`.
  void look(const Ledger& live, std::int64_t total, const Largest& of_script);
};

/// What a script comes to, wherever it begins: what is alive more at its end, and its largest
/// instants beyond what was alive before. Running it is as running the script, and sooner.
struct Effect {
  Script script;  ///< for a timeline; may be empty where none is kept
  Ledger change;
  std::int64_t total = 0;
  HostCopies copies{.most = Largest::kNone};
  Largest largest{{}, Largest::kNone, Largest::kNone, Largest::kNone};
};

/// Runs scripts from an empty device and keeps the peaks of each phase.
class Simulator {
 public:
  /// `page_locks`: copies on the host are in page-locked memory.
  explicit Simulator(bool page_locks = false) : page_locks_(page_locks) {}

  /// What comes belongs to `phase`; what is alive now is an instant of it.
  void enter(Phase phase);
  void run(const Script& script);
  void run(const Effect& effect);
  void make(const Tensor& tensor) {
    step({Event::Kind::make, tensor.name, tensor.account, tensor.bytes, false});
  }
  void drop(const Tensor& tensor) {
    step({Event::Kind::drop, tensor.name, tensor.account, tensor.bytes, false});
  }

  /// Runs `body` that often. Every round shifts the live bytes by the same amount, so that each of
  /// its instants is largest in the first or in the last round: no other is looked at.
  template <class Body>
  void repeat(std::int64_t count, const Body& body) {
    if (count < 1) return;
    const Ledger before = live_;
    const HostCopies copies_before = copies_;
    body();
    if (count == 1) return;
    if (timeline_ == nullptr) {
      skip(before, copies_before, count - 2);
      return body();
    }
    for (std::int64_t round = 1; round < count; ++round) body();
  }

  /// Keeps every instant at which a tensor is made, of every round, in `timeline`.
  void keep_timeline(std::vector<Instant>* timeline) { timeline_ = timeline; }

  const Ledger& live() const { return live_; }
  const HostCopies& copies() const { return copies_; }
  const Peaks& peaks(Phase phase) const { return phases_[static_cast<std::size_t>(phase)].peaks; }

 private:
  friend Effect effect_of(Script script, bool page_locks);

  void step(const Event& event);
  void look(std::int64_t workspace, bool scratch) {
    here().look(live_, total_, workspace, scratch);
  }
  /// As if what was alive went from `before` to now `rounds` times more.
  void skip(const Ledger& before, const HostCopies& copies_before, std::int64_t rounds);
  void copy(const Event& event);
  Largest& here() { return phases_[static_cast<std::size_t>(phase_)]; }

  bool page_locks_;
  Ledger live_;
  HostCopies copies_;
  std::int64_t total_ = 0;
  Phase phase_ = Phase::load;
  std::vector<Instant>* timeline_ = nullptr;
  std::array<Largest, kWordCount<Phase>> phases_{};
};

/// With `page_locks` as the simulator's that is to run it.
Effect effect_of(Script script, bool page_locks);

}  // namespace planwright::estimator
