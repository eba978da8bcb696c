#include "launcher/targets/fsdp/rules.h"

#include "launcher/targets/shared/dimensions.h"
#include "launcher/targets/shared/knobs.h"

namespace planwright::targets::fsdp {
namespace {

constexpr const char* kFullyShard =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fully_shard.py @ v2.11.0";
constexpr const char* kPolicy =
    "pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py @ v2.11.0";
constexpr const char* kSettings = "launcher/targets/fsdp/emit.h";

}  // namespace

std::vector<Rule> emit_rules() {
  return {
      trains_only(kSettings),
      one_stage(kFullyShard),
      one_tensor_rank(kFullyShard),
      one_context_rank(kFullyShard),
      no_expert_ranks(kFullyShard),
      no_sequence_parallel(kFullyShard),
      no_zero_one(kFullyShard),
      replicas_divide_ranks(kFullyShard),
      equal_stages(kFullyShard),
      recompute_among({RecomputeKind::none, RecomputeKind::full, RecomputeKind::alternate,
                       RecomputeKind::first},
                      kSettings),
      offload_of_all_states(kPolicy),
      precision_among({Precision::bf16, Precision::fp16, Precision::fp32, Precision::fp64},
                      kPolicy),
      known_knobs({}, kSettings),
  };
}

}  // namespace planwright::targets::fsdp
