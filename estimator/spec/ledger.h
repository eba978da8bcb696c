#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "estimator/spec/units.h"
#include "estimator/spec/words.h"

namespace planwright {

/// Where a byte of device memory belongs (DESIGN section 5). All but the last two are inside the
/// allocator and sum to its peak.
enum class Account {
  parameters,   ///< weights, gathered working copies, constant tables
  gradients,    ///< from the adoption into .grad or a bucket on
  optimizer,    ///< moments and master weights
  activations,  ///< kept and transient tensors of forward and backward, activation gradients
  logits,       ///< the head's output, its upcast copy, its gradient
  kv_cache,
  communication,  ///< buffers of collectives
  staging,        ///< offload and dequantised copies
  workspace,      ///< what a kernel allocates and frees before it returns
  context,        ///< outside the allocator: driver context, loaded kernels, communicators
  fragmentation,  ///< outside the allocator: reserved and not allocated
};

template <>
struct Words<Account> {
  static constexpr std::array<std::string_view, 11> kWords{
      "parameters",    "gradients", "optimizer", "activations", "logits",       "kv_cache",
      "communication", "staging",   "workspace", "context",     "fragmentation"};
};

/// What a step is doing; a peak is the maximum over phases of the live bytes.
enum class Phase { load, forward, loss, backward, reduce, optimizer };

template <>
struct Words<Phase> {
  static constexpr std::array<std::string_view, 6> kWords{"load",     "forward", "loss",
                                                          "backward", "reduce",  "optimizer"};
};

/// Bytes by account at one instant.
struct Ledger {
  std::array<Bytes, kWordCount<Account>> bytes{};

  Bytes& operator[](Account account) { return bytes[static_cast<std::size_t>(account)]; }
  Bytes operator[](Account account) const { return bytes[static_cast<std::size_t>(account)]; }
  bool operator==(const Ledger&) const = default;

  Ledger& operator+=(const Ledger& other) {
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] += other.bytes[i];
    return *this;
  }

  /// Everything inside the allocator; what a CPU budget is enforced on.
  Bytes allocated() const {
    Bytes sum;
    for (const Bytes each : bytes) sum += each;
    return sum - (*this)[Account::context] - (*this)[Account::fragmentation];
  }
  /// `allocated` without the kernels' private workspace: the figure that is exact.
  Bytes tensors() const { return allocated() - (*this)[Account::workspace]; }
};

}  // namespace planwright
