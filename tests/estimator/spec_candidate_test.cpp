#include <gtest/gtest.h>

#include <string>

#include "estimator/spec/candidate.h"
#include "tests/support/fault.h"
#include "tests/support/samples.h"

namespace planwright {
namespace {

using testing::fault_of;

struct RecomputeText {
  const char* text;
  Recompute value;
};

const RecomputeText kRecomputes[] = {
    {"none", {RecomputeKind::none, 0, {}}},
    {"full", {RecomputeKind::full, 0, {}}},
    {"op", {RecomputeKind::op, 0, {}}},
    {"selective", {RecomputeKind::selective, 0, {}}},
    {"selective:attention", {RecomputeKind::selective, 0, {"attention"}}},
    {"selective:attention+mlp", {RecomputeKind::selective, 0, {"attention", "mlp"}}},
    {"chunk:4", {RecomputeKind::chunk, 4, {}}},
    {"alternate:2", {RecomputeKind::alternate, 2, {}}},
    {"first:12", {RecomputeKind::first, 12, {}}},
};

TEST(SpecCandidate, RecomputeIsSpelledAndReadAlike) {
  for (const auto& [text, value] : kRecomputes) {
    EXPECT_EQ(recompute_text(value), text);
    EXPECT_EQ(parse_recompute(text, "f", "k"), value) << text;
  }
}

TEST(SpecCandidate, WrongRecomputeIsRefusedWithWhatIsRight) {
  const struct {
    const char* text;
    const char* rule;
    const char* nearest;
  } kCases[] = {
      {"ful", "must be one of", "full"},
      {"", "must be one of", ""},
      {"chunk", "number of layers from 1", "chunk:1"},
      {"chunk:", "number of layers from 1", "chunk:1"},
      {"chunk:0", "number of layers from 1", "chunk:1"},
      {"first:-3", "number of layers from 1", "first:1"},
      {"alternate:2x", "number of layers from 1", "alternate:1"},
      {"chunk:99999999999", "number of layers from 1", "chunk:1"},
      {"full:2", "takes nothing after it", "full"},
      {"selective:", "modules joined by +", "selective:core_attn"},
      {"selective:mlp+", "modules joined by +", "selective:core_attn"},
  };
  for (const auto& c : kCases) {
    SCOPED_TRACE(c.text);
    const auto fault = fault_of([&] { parse_recompute(c.text, "s.toml", "recompute"); });
    EXPECT_EQ(fault.file, "s.toml");
    EXPECT_EQ(fault.key, "recompute");
    EXPECT_NE(fault.rule.find(c.rule), std::string::npos) << fault.rule;
    EXPECT_EQ(fault.nearest, c.nearest);
  }
}

TEST(SpecCandidate, RecomputedModulesAreASetThatIsWrittenInOneWay) {
  const auto text_of = [](const char* text) {
    return recompute_text(parse_recompute(text, "f", "k"));
  };
  EXPECT_EQ(text_of("selective:mlp+layernorm"), "selective:layernorm+mlp");
  EXPECT_EQ(text_of("selective:mlp+mlp"), "selective:mlp");
  EXPECT_EQ(text_of("selective:core_attn+core_attn"), "selective");
}

TEST(SpecCandidate, OffloadPartsAreJoinedInOneOrderAndReadInAny) {
  const Offload all{.optimizer = true, .params = true, .activations = true};
  EXPECT_EQ(offload_text(Offload{}), "none");
  EXPECT_EQ(offload_text(all), "optimizer+params+activations");
  EXPECT_EQ(parse_offload("none", "f", "k"), Offload{});
  EXPECT_EQ(parse_offload("activations+optimizer+params", "f", "k"), all);
  EXPECT_EQ(parse_offload("params", "f", "k"), Offload{.params = true});
}

TEST(SpecCandidate, WrongOffloadIsRefusedWithWhatIsRight) {
  EXPECT_EQ(fault_of([] { parse_offload("optimizer+param", "f", "offload"); }).nearest, "params");
  for (const char* text : {"", "optimizer+", "none+params", "all"}) {
    EXPECT_EQ(fault_of([&] { parse_offload(text, "f", "offload"); }).key, "offload") << text;
  }
}

TEST(SpecCandidate, ADescriptionShowsDpMicroBatchAndWhatIsNotUsual) {
  EXPECT_EQ(describe(Candidate{}), "dp 1, micro-batch 1");
  Candidate candidate;
  candidate.dp = 2;
  candidate.zero = 1;
  candidate.micro_batch = 4;
  candidate.recompute.kind = RecomputeKind::full;
  EXPECT_EQ(describe(candidate), "dp 2, zero 1, micro-batch 4, recompute full");
  EXPECT_EQ(describe(testing::sample_candidate()),
            "tp 2, pp 3, vpp 4, cp 5, ep 6, etp 7, dp 8, zero 3, hsdp 2, sp on, micro-batch 16, "
            "schedule zb, recompute selective:attention+mlp, offload optimizer+activations, "
            "offload-to nvme, attention eager, loss chunked, bucket large, a_later_one 2, "
            "stages 10/12");
}

}  // namespace
}  // namespace planwright
