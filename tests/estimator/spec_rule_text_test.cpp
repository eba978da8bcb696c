#include <gtest/gtest.h>

#include "estimator/spec/target_traits.h"
#include "tests/support/samples.h"

namespace planwright {
namespace {

struct FilledText {
  const char* text;
  const char* filled;
};

const FilledText kTexts[] = {
    {"", ""},
    {"nothing to fill", "nothing to fill"},
    {"tp {tp} does not divide {kv_heads}", "tp 2 does not divide 4"},
    {"{pp}/{vpp}/{cp}/{ep}/{etp}/{dp}/{hsdp}", "3/4/5/6/7/8/2"},
    {"{zero}{sp}{micro_batch}", "3on16"},
    {"{schedule} {attention} {loss}", "zb eager chunked"},
    {"{recompute} {offload} {offload_to}", "selective:attention+mlp optimizer+activations nvme"},
    {"{world} of {devices} {device}", "240 of 16 A100-80GB"},
    {"{global_batch} x {seq}", "64 x 2048"},
    {"{heads} {layers} {hidden} {max_positions}", "8 5 256 1024"},
    {"{sliding_window} {precision} {optimizer} {target}", "64 fp16 lion sample"},
    {"{no_such_name} stays, {} too", "{no_such_name} stays, {} too"},
    {"{tp", "{tp"},
    {"{{tp}}", "{2}"},
    {"} {tp}", "} 2"},
};

TEST(SpecRuleText, NamesAreFilledAndUnknownOnesStay) {
  for (const auto& [text, filled] : kTexts) {
    EXPECT_EQ(fill_rule_text(text, testing::sample_problem(), testing::sample_candidate()), filled);
  }
}

TEST(SpecRuleText, AModelWithoutBlocksFillsWithZeros) {
  EXPECT_EQ(fill_rule_text("{heads} {layers} {sliding_window}", Problem{}, Candidate{}), "0 0 0");
}

}  // namespace
}  // namespace planwright
