#include <gtest/gtest.h>

#include <string>

#include "estimator/spec/candidate.h"
#include "estimator/spec/ledger.h"
#include "estimator/spec/outcome.h"
#include "estimator/spec/words.h"
#include "estimator/spec/workload.h"
#include "tests/support/fault.h"

namespace planwright {
namespace {

using testing::fault_of;

template <class Enum>
void expect_words_and_values_match() {
  for (std::size_t i = 0; i < kWordCount<Enum>; ++i) {
    const auto value = static_cast<Enum>(i);
    EXPECT_FALSE(word(value).empty());
    EXPECT_EQ(from_word<Enum>(word(value)), value) << "twice: " << word(value);
  }
  EXPECT_EQ(from_word<Enum>("no such word"), std::nullopt);
}

TEST(SpecWords, EveryWordStandsForOneValue) {
  expect_words_and_values_match<Account>();
  expect_words_and_values_match<Phase>();
  expect_words_and_values_match<Schedule>();
  expect_words_and_values_match<RecomputeKind>();
  expect_words_and_values_match<OptimizerKind>();
  expect_words_and_values_match<Precision>();
  expect_words_and_values_match<OutcomeKind>();
}

TEST(SpecWords, TheLastWordBelongsToTheLastValue) {
  EXPECT_EQ(word(Account::fragmentation), "fragmentation");
  EXPECT_EQ(word(Phase::optimizer), "optimizer");
  EXPECT_EQ(word(RecomputeKind::first), "first");
  EXPECT_EQ(word(OptimizerKind::sgd), "sgd");
  EXPECT_EQ(word(OutcomeKind::environment), "environment");
}

TEST(SpecWords, NearestWordHasTheSmallestEditDistance) {
  const std::vector<std::string> words{"gpipe", "1f1b", "interleaved", "zb"};
  EXPECT_EQ(nearest_word("gpip", words), "gpipe");
  EXPECT_EQ(nearest_word("1fb1", words), "1f1b");
  EXPECT_EQ(nearest_word("interleave", words), "interleaved");
  EXPECT_EQ(nearest_word("zb", words), "zb");
  EXPECT_EQ(nearest_word("zz", words), "zb") << "one edit is always near";
  EXPECT_EQ(nearest_word("x", {}), "");
}

TEST(SpecWords, CapitalsAreNotAMistakeAtAll) {
  EXPECT_EQ(nearest_word("NF4", {"int4", "nf4"}), "nf4");
  EXPECT_EQ(nearest_word("LLAMA", {"gpt2", "llama-2-7b"}), "llama-2-7b");
  EXPECT_EQ(nearest_word("BF61", {"bf16"}), "bf16");
}

TEST(SpecWords, NothingIsNearThatIsFarAway) {
  EXPECT_EQ(nearest_word("", {"zb"}), "");
  EXPECT_EQ(nearest_word("fp16", {"fp32", "fp64"}), "");
  EXPECT_EQ(nearest_word("nope.json", {"gpt2", "llama-2-7b"}), "");
  EXPECT_EQ(nearest_word(std::string(5'000'000, 'x'), {"xx"}), "");
  EXPECT_EQ(nearest_word("--mem", {"--seq", "--memory"}), "--memory") << "its beginning";
  EXPECT_EQ(nearest_word("lama-2-13b", {"llama-2-7b"}), "llama-2-7b") << "3 edits of 10";
}

TEST(SpecWords, NearestWordStandsBetweenWhatIsPutAroundIt) {
  EXPECT_EQ(nearest_word("gpip", {"gpipe"}, "[", "]"), "[gpipe]");
  EXPECT_EQ(nearest_word("other", {"gpipe"}, "[", "]"), "");
}

TEST(SpecWords, ListsReadAsASentence) {
  EXPECT_EQ(join_words({}), "");
  EXPECT_EQ(join_words({"a"}), "a");
  EXPECT_EQ(join_words({"a", "b"}), "a or b");
  EXPECT_EQ(join_words({"a", "b", "c"}), "a, b or c");
}

TEST(SpecWords, AWrongWordIsNamedWithWhatIsAllowed) {
  const auto fault = fault_of([] { parse_word<AttentionKernel>("flsh", "s.toml", "attention"); });
  EXPECT_EQ(fault.file, "s.toml");
  EXPECT_EQ(fault.key, "attention");
  EXPECT_EQ(fault.value, "flsh");
  EXPECT_EQ(fault.rule, "must be one of flash or eager");
  EXPECT_EQ(fault.nearest, "flash");
}

TEST(SpecWords, AMessageNamesFileKeyValueRuleAndNearest) {
  EXPECT_STREQ(InputError({"s.toml", "zero", "5", "must be at most 3", "3"}).what(),
               "s.toml: zero = 5: must be at most 3; did you mean 3?");
  EXPECT_STREQ(InputError({"s.toml", "seq", "", "is missing", ""}).what(),
               "s.toml: seq: is missing");
  EXPECT_STREQ(InputError({"", "", "", "nothing to plan for", ""}).what(), "nothing to plan for");
}

}  // namespace
}  // namespace planwright
