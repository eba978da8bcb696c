#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "estimator/spec/words.h"

namespace planwright {

enum class Schedule { gpipe, one_f_one_b, interleaved, zero_bubble };
template <>
struct Words<Schedule> {
  static constexpr std::array<std::string_view, 4> kWords{"gpipe", "1f1b", "interleaved", "zb"};
};

enum class RecomputeKind { none, selective, op, full, chunk, alternate, first };
template <>
struct Words<RecomputeKind> {
  static constexpr std::array<std::string_view, 7> kWords{"none",  "selective", "op",   "full",
                                                          "chunk", "alternate", "first"};
};

/// What selective means without a list; Megatron's word for it.
constexpr std::string_view kAttentionCore = "core_attn";

/// `--recompute`: chunk, alternate and first carry a layer count `k`, selective a module list.
struct Recompute {
  RecomputeKind kind = RecomputeKind::none;
  int k = 0;
  std::vector<std::string> modules;
  bool operator==(const Recompute&) const = default;
};

enum class OffloadTo { cpu, nvme };
template <>
struct Words<OffloadTo> {
  static constexpr std::array<std::string_view, 2> kWords{"cpu", "nvme"};
};

struct Offload {
  bool optimizer = false;
  bool params = false;
  bool activations = false;
  OffloadTo to = OffloadTo::cpu;
  bool operator==(const Offload&) const = default;
};

enum class AttentionKernel { flash, eager };
template <>
struct Words<AttentionKernel> {
  static constexpr std::array<std::string_view, 2> kWords{"flash", "eager"};
};

enum class LossKernel { plain, fused, chunked };
template <>
struct Words<LossKernel> {
  static constexpr std::array<std::string_view, 3> kWords{"plain", "fused", "chunked"};
};

/// What one pipeline stage does differently from the uniform expansion.
struct StagePlan {
  std::int64_t blocks = 0;
  Recompute recompute;
  Offload offload;
  bool operator==(const StagePlan&) const = default;
};

/// One full assignment of the plan's axes (DESIGN section 5). `stages` is empty unless the plan
/// is uneven; `knobs` are the target's own, in the order of its traits, absent at their default.
struct Candidate {
  int tp = 1, pp = 1, vpp = 1, cp = 1, ep = 1, etp = 1, dp = 1;
  int zero = 0;
  int hsdp = 1;  ///< replicas of the sharding group; 1: sharded over all of dp
  bool sp = false;
  int micro_batch = 1;  ///< sequences
  Schedule schedule = Schedule::one_f_one_b;
  Recompute recompute{};
  Offload offload{};
  AttentionKernel attention = AttentionKernel::flash;
  LossKernel loss = LossKernel::plain;
  std::vector<std::pair<std::string, std::string>> knobs{};
  std::vector<StagePlan> stages{};

  bool operator==(const Candidate&) const = default;
  /// Ranks: tp × pp × cp × dp; the largest number there is where that is more.
  std::int64_t world() const;
  /// Those that hold a stage's weights alike and see other tokens: dp × cp.
  int data_ranks() const { return dp * cp; }
  /// Those of them, and of the tensor ranks, that hold a stage's experts alike.
  int expert_data_ranks() const { return tp * data_ranks() / (ep * etp); }
};

/// "none", "full", "chunk:4", "selective:layernorm+mlp".
std::string recompute_text(const Recompute& recompute);
/// The reverse; an InputError naming `file` and `key` otherwise.
Recompute parse_recompute(std::string_view text, const std::string& file, const std::string& key);

/// "none" or the parts joined by "+", in the order optimizer, params, activations.
std::string offload_text(const Offload& offload);
Offload parse_offload(std::string_view text, const std::string& file, const std::string& key);

/// One line for people: `dp 2, zero 1, micro-batch 4, recompute full`; defaults are left out but
/// for dp and micro-batch.
std::string describe(const Candidate& candidate);

/// The first 12 hex digits of the SHA-256 of its canonical JSON: stable over releases, because
/// axes at their default are left out.
std::string candidate_hash(const Candidate& candidate);

}  // namespace planwright
