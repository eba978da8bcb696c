#pragma once

#include <cstdint>
#include <vector>

#include "estimator/spec/candidate.h"

/// Which rank does what, and which ranks talk to each other.
namespace planwright {

/// A rank's index along each axis. Tensor ranks are neighbours, then come the data ranks, those
/// that share sequences first, then the stages. Source: NVIDIA/Megatron-LM
/// megatron/core/parallel_state.py @ core_v0.15, order "tp-cp-ep-dp-pp".
struct RankPlace {
  int tp = 0;
  int dp = 0;  ///< of Candidate::data_ranks()
  int pp = 0;
  bool operator==(const RankPlace&) const = default;
};

RankPlace place_of(const Candidate& candidate, int rank);
int rank_at(const Candidate& candidate, const RankPlace& place);

/// Data ranks that states are sharded over: dp × cp / hsdp with ZeRO, 1 without.
int shard_ranks(const Candidate& candidate);
/// The same of experts.
int expert_shard_ranks(const Candidate& candidate);

/// The groups that `rank` is in, itself included, in ascending order.
struct RankGroups {
  std::vector<int> tensor;    ///< share the matrices of one stage and the same samples
  std::vector<int> shard;     ///< data ranks among which a ZeRO shard is split; without ZeRO itself
  std::vector<int> replica;   ///< data ranks that hold the same: all of them without ZeRO
  std::vector<int> pipeline;  ///< the stages of one model, first to last
  std::vector<int> embedding;  ///< first and last stage, which both hold a tied embedding
};

RankGroups groups_of(const Candidate& candidate, int rank);

}  // namespace planwright
