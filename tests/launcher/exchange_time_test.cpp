#include <gtest/gtest.h>

#include <functional>

#include "estimator/devices.h"
#include "estimator/models.h"
#include "estimator/quantities.h"
#include "launcher/targets/megatron/rules.h"
#include "launcher/targets/megatron/traits.h"

/// What Megatron's ranks send each other of sequences and experts in a micro-batch.
namespace planwright {
namespace {

using estimator::Collective;
using estimator::Messages;

constexpr int kDevices = 8;
constexpr double kTokens = 4096;

estimator::StageQuantities stage_of(const char* model,
                                    const std::function<void(Candidate&)>& change) {
  const TargetTraits& traits = targets::megatron::traits();
  Problem p;
  p.target = traits.name;
  p.model = estimator::find_model(model, "", "");
  p.cluster = estimator::preset_cluster(estimator::find_device("H100-SXM5-80GB", "", ""), kDevices,
                                        kDevices);
  p.workload.seq = static_cast<std::int64_t>(kTokens);
  p.workload.global_batch = kDevices;
  p.workload.recipe = *traits.recipe(Precision::bf16);
  Candidate c;
  c.zero = 1;
  c.dp = kDevices;
  change(c);
  return estimator::quantify(p, traits, c).stages.front();
}

Messages sum_of(const std::vector<Messages>& all, Collective kind) {
  Messages sum{.collective = kind};
  for (const Messages& each : all) {
    if (each.collective != kind) continue;
    sum.count += each.count;
    sum.bytes += each.bytes;
    sum.ranks = each.ranks;
  }
  return sum;
}

void context(Candidate& c) {
  c.cp = 4;
  c.dp = 2;
}

/// llama-3.1-8b: 32 blocks, of whose keys and values in bf16 a rank has 2 x 8 heads of 128 for a
/// quarter of the tokens. They go on thrice in forward; in backward again, and their gradients.
TEST(ContextTime, KeysAndValuesGoRoundBesideAttention) {
  const auto stage = stage_of("llama-3.1-8b", context);
  EXPECT_EQ(stage.waited.size(), 0u);
  const Messages sent = sum_of(stage.beside_attention, Collective::send);
  const double pair = kTokens / 4 * 2 * 8 * 128 * 2;
  EXPECT_DOUBLE_EQ(sent.bytes, 32 * (3 + 2 * 3) * pair);
  EXPECT_DOUBLE_EQ(sent.count, 32 * (3 + 4));
}

TEST(ContextTime, ACheckpointedForwardSendsThemAgain) {
  const auto bytes = [](RecomputeKind kind) {
    const auto stage = stage_of("llama-3.1-8b", [&](Candidate& c) {
      context(c);
      c.recompute.kind = kind;
    });
    return sum_of(stage.beside_attention, Collective::send).bytes;
  };
  EXPECT_DOUBLE_EQ(bytes(RecomputeKind::full) / bytes(RecomputeKind::none), 4 / 3.0);
  EXPECT_DOUBLE_EQ(bytes(RecomputeKind::selective) / bytes(RecomputeKind::none), 4 / 3.0);
}

/// 32 heads of queries and of results, 2 x 8 of keys and values, in both directions.
TEST(ContextTime, HeadsAreExchangedForTokensAndWaitedFor) {
  const auto stage = stage_of("llama-3.1-8b", [](Candidate& c) {
    context(c);
    c.knobs = {{targets::megatron::kExchangeKnob, "a2a"}};
  });
  EXPECT_EQ(stage.beside_attention.size(), 0u);
  const Messages sent = sum_of(stage.waited, Collective::all_to_all);
  EXPECT_EQ(sent.ranks, 4);
  EXPECT_DOUBLE_EQ(sent.bytes, 32 * 2 * kTokens / 4 * (2 * 32 + 2 * 8) * 128 * 2);
  EXPECT_DOUBLE_EQ(sent.count, 32 * 2 * 4);
}

/// mixtral-8x7b: 32 blocks, hidden 4096, two experts for each token; with each row's probability.
TEST(ExpertExchange, TokensGoToTheirExpertsAndComeBack) {
  const auto stage = stage_of("mixtral-8x7b", [](Candidate& c) { c.ep = 8; });
  const Messages sent = sum_of(stage.waited, Collective::all_to_all);
  EXPECT_EQ(sent.ranks, 8);
  EXPECT_DOUBLE_EQ(sent.bytes, 32 * 2 * (2 * 2 * kTokens * 4096 * 2 + 2 * kTokens * 4));
  EXPECT_TRUE(stage_of("mixtral-8x7b", [](Candidate&) {}).waited.empty());
}

TEST(ExpertExchange, AllTokensAreGatheredWhereThatIsHowTheyAreSent) {
  const auto stage = stage_of("mixtral-8x7b", [](Candidate& c) {
    c.ep = 8;
    c.knobs = {{targets::megatron::kDispatcherKnob, "allgather"}};
  });
  const double all = 32 * 2 * 8 * kTokens * 4096 * 2;
  EXPECT_DOUBLE_EQ(sum_of(stage.waited, Collective::all_gather).bytes, all);
  EXPECT_DOUBLE_EQ(sum_of(stage.waited, Collective::reduce_scatter).bytes, all);
}

/// Of a block's two pairs of products tensor ranks share attention's alone; a part of an expert has
/// all rows of its tensor ranks.
TEST(ExpertExchange, PartsOfAnExpertGatherTheirRows) {
  const auto gathered = [](int etp) {
    const auto stage = stage_of("mixtral-8x7b", [&](Candidate& c) {
      c.tp = c.etp = etp;
      if (etp == 1) c.tp = 2;
      c.sp = true;
      c.dp = 4;
    });
    return sum_of(stage.waited, Collective::all_gather).bytes;
  };
  EXPECT_DOUBLE_EQ(gathered(2) - gathered(1), 32 * 2 * kTokens * 2 * 4096 * 2);
}

}  // namespace
}  // namespace planwright
