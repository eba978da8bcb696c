#include "launcher/targets/megatron_deepspeed/holdings.h"

#include <algorithm>
#include <iterator>

#include "launcher/targets/megatron_deepspeed/rules.h"

namespace planwright::targets::megatron_deepspeed {
namespace {

constexpr const char* kEngine = "microsoft/DeepSpeed deepspeed/runtime/engine.py @ v0.5.10";
constexpr const char* kFused =
    "microsoft/DeepSpeed deepspeed/runtime/fp16/fused_optimizer.py @ v0.5.10";
constexpr const char* kZero =
    "microsoft/DeepSpeed deepspeed/runtime/zero/stage_1_and_2.py @ v0.5.10";
constexpr const char* kBf16 = "microsoft/DeepSpeed deepspeed/runtime/bf16_optimizer.py @ v0.6.7";

constexpr Phase kLoad = Phase::load;
constexpr Phase kBackward = Phase::backward;
constexpr Phase kReduce = Phase::reduce;
constexpr Phase kEnd = Phase::optimizer;

std::int64_t weight(const PrecisionRecipe& r) { return bytes_of(r.compute); }
std::int64_t full(const PrecisionRecipe&) { return bytes_of(DType::fp32); }
std::int64_t master(const PrecisionRecipe& r) { return r.master ? bytes_of(*r.master) : 0; }
std::int64_t two_states(const PrecisionRecipe& r) { return 2 * bytes_of(r.state); }

ShardedBy whole(const Candidate&) { return ShardedBy::nothing; }
ShardedBy part(const Candidate& c) {
  return c.zero >= 1 ? ShardedBy::data_ranks : ShardedBy::nothing;
}

bool narrow(const Problem& p) { return bytes_of(p.workload.recipe.compute) == 2; }
bool bf16(const Problem& p, const Candidate&) { return has_bf16_optimizer(p); }
bool not_bf16(const Problem& p, const Candidate& c) { return !bf16(p, c); }
bool fused(const Problem& p, const Candidate& c) { return not_bf16(p, c) && c.zero == 0; }
bool fused_narrow(const Problem& p, const Candidate& c) { return fused(p, c) && narrow(p); }
bool zero_one(const Problem& p, const Candidate& c) { return not_bf16(p, c) && c.zero == 1; }

struct Row {
  Account account;
  HoldingOf of;
  std::int64_t (*bytes_each)(const PrecisionRecipe&);
  ShardedBy (*sharded_by)(const Candidate&);
  Phase from, to;
  bool (*when)(const Problem&, const Candidate&);
  const char* source;
  bool grows = false;
};

const std::vector<Row>& rows() {
  using enum Account;
  using enum HoldingOf;
  constexpr bool kGrows = true;
  static const std::vector<Row> kRows{
      // account    of      bytes   by     from   to    when     source
      {parameters, trained, weight, whole, kLoad, kEnd, nullptr, kEngine},
      {optimizer, trained, master, part, kLoad, kEnd, nullptr, kZero},
      {optimizer, trained, two_states, part, kLoad, kEnd, nullptr, kZero},

      // One fp16 copy of .grad in a row, and that one in fp32.
      {gradients, trained, weight, whole, kBackward, kReduce, fused, kFused, kGrows},
      {gradients, trained, weight, whole, kReduce, kReduce, fused_narrow, kFused},
      {gradients, trained, full, whole, kReduce, kEnd, fused_narrow, kFused},

      // The engine reduces after the last backward, through a bucket; the own part is widened.
      {gradients, trained, weight, whole, kBackward, kReduce, zero_one, kZero, kGrows},
      {communication, bucket, weight, whole, kReduce, kReduce, zero_one, kZero},
      {gradients, trained, full, part, kReduce, kEnd, zero_one, kZero},

      // Sums in fp32 for good, and .grad beside them.
      {gradients, trained, full, whole, kLoad, kEnd, bf16, kBf16},
      {gradients, trained, weight, whole, kBackward, kEnd, bf16, kBf16, kGrows},
  };
  return kRows;
}

Holding holding_of(const Row& row) {
  Holding holding;
  holding.account = row.account;
  holding.of = row.of;
  holding.bytes_each = row.bytes_each;
  holding.sharded_by = row.sharded_by;
  holding.from = row.from;
  holding.to = row.to;
  if (row.when != nullptr) holding.when = row.when;
  holding.source = row.source;
  holding.grows = row.grows;
  return holding;
}

}  // namespace

std::vector<Holding> holdings() {
  std::vector<Holding> all;
  std::transform(rows().begin(), rows().end(), std::back_inserter(all), holding_of);
  return all;
}

/// Source: microsoft/DeepSpeed deepspeed/runtime/zero/constants.py @ v0.5.10.
std::int64_t bucket_elements(const Candidate&) { return 500'000'000; }

}  // namespace planwright::targets::megatron_deepspeed
