#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "launcher/logs/pattern.h"

namespace planwright::launcher {
namespace {

/// The numbers that the pattern finds, with their units; "-" if it is not found.
std::string found(const char* pattern, std::string_view line, bool cut = false) {
  std::vector<Figure> figures;
  if (!Pattern(pattern, "test", "lines").find({line, cut}, figures)) {
    EXPECT_TRUE(figures.empty()) << pattern;
    return "-";
  }
  std::string text;
  for (const Figure& each : figures) {
    if (!text.empty()) text += ' ';
    std::string number = std::to_string(each.number);
    number.erase(number.find_last_not_of('0') + 1);
    if (number.back() == '.') number.pop_back();
    text += number + std::string(unit_word(each.unit));
  }
  return text;
}

TEST(LogPattern, FindsItsFiguresWhereverTheyStand) {
  struct Case {
    const char* pattern;
    const char* line;
    const char* found;
  };
  const Case cases[] = {
      {"iteration (ms): {step_ms} |", "| elapsed time per iteration (ms):   812.4 | x", "812.4ms"},
      {"step: {step} loss: {loss}", "a step:1   loss:  7.25 b", "1 7.25"},
      {"loss{=}{loss}", "{'loss': '2.5', 'x': 1}", "2.5"},
      {"loss{=}{loss}", "{\"loss\":2.5}", "2.5"},
      {"loss{=}{loss}", "loss = 2.5", "2.5"},
      {"loss{=}{loss}", "eval_loss = 2.5", "-"},
      {"loss{=}{loss}", "eval_loss = 2.5, loss = 3.5", "3.5"},
      {"memory: {reserved_peak}({*})", "memory: 45.5GiB(57.1%)", "45.5GiB"},
      {"mem {allocated_gib}GB", "mem 45.5GB", "45.5GiB"},
      {"took {step_time}", "took 45 ms", "45ms"},
      {"took {step_time}", "took 0.5", "0.5"},
      {"took {step_time}", "took 12:30:45", "-"},
      {"{tokens_per_s} tokens/s", "at 12,345 tokens/s now", "12345"},
      {"{tokens_per_s} tokens/s", "at 12.5k tokens/s", "12500"},
      {"{tokens_per_s} tokens/s", "no tokens/s, then 7 tokens/s", "7"},
      {"{tokens_per_s} tokens/s", "time 0.5 tokens/s: 7", "-"},
      {"{tokens_per_s} tokens/s", "time 0.5 tokens/sec 7", "-"},
      {"{step_time}/step", "812.5 ms/step", "812.5ms"},
      {"{step_time}/step", "812.5ms/step", "812.5ms"},
      {"{step_s}s/it", " 2.00s/it]", "2s"},
      {"{step_s}s/it", "x2.00s/it", "-"},
      {"a {*} b: {step}", "a b: x b: 1 b: 2", "1"},
      {"ab: {step} {*}cd: {loss} ef", "ab: 1 cd: x cd: 2 cd: 3 ef", "1 3"},
      {"{^} {number}%| {step}", "  12%| 3", "12 3"},
      {"{^} {number}%| {step}", "x  12%| 3", "-"},
      {"x={{{step}}}", "x={7}", "7"},
      {"step {step}", "step 1.5", "-"},
      {"step {step}", "step 12abc", "-"},
      {"step {step}", "step -1", "-"},
      {"step {step}", "steps 12", "-"},
      {"torch {number}", "torch 2.11.0", "-"},
      {"out of memory", "out  of memory", "-"},
      {"mem={allocated}", "mem=123456789", "123456789"},
      {"mem={allocated}", "mem=12.5", "-"},
      {"mem={allocated}", "mem=12", "-"},
      {"mem={allocated}", "mem=-1GiB", "-"},
      {"mem={allocated}", "mem=inf", "-"},
      {"loss={loss}", "loss=nan", "nan"},
  };
  for (const Case& each : cases) {
    EXPECT_EQ(found(each.pattern, each.line), each.found) << each.pattern << " in " << each.line;
  }
}

TEST(LogPattern, TrustsNoNumberAtTheEndOfACutLine) {
  for (const char* const line : {"t=8", "t=8.", "t=8 ", "t=8,", "t=8e"}) {
    EXPECT_EQ(found("t={step_time}", line, true), "-") << line;
  }
  EXPECT_EQ(found("t={step_time}", "t=8 ms", true), "-");
  EXPECT_EQ(found("t={step_time}", "t=8 ms,", true), "-");
  EXPECT_EQ(found("t={step_time}", "t=8 ms x", true), "8ms");
  EXPECT_EQ(found("t={step_time}", "t=8"), "8");
}

TEST(LogPattern, RefusesWhatIsNone) {
  struct Case {
    const char* pattern;
    const char* says;
  };
  const Case cases[] = {
      {"", "two characters"},
      {"{step}", "two characters"},
      {"a{step}", "two characters"},
      {"took {step_tme}", "step_time"},
      {"took {step", "not closed"},
      {"took step}", "closing brace"},
      {"took {step}{loss}", "between two fields"},
      {"took {step} {loss}", "between two fields"},
      {"took {*}{step}", "behind {*}"},
      {"took {*}", ""},
      {"{*}took {step}", "without {*}"},
      {"{=}took {step}", "key before"},
      {"took {^}{step}", "only at its beginning"},
      {"{step}{=}took", "behind the field"},
  };
  for (const Case& each : cases) {
    try {
      Pattern(each.pattern, "file.toml", "launch.log.lines");
      EXPECT_STREQ(each.says, "") << each.pattern;
    } catch (const InputError& error) {
      EXPECT_STRNE(each.says, "") << error.what();
      EXPECT_NE(std::string(error.what()).find(each.says), std::string::npos) << error.what();
      EXPECT_EQ(error.fault().file, "file.toml");
    }
  }
}

TEST(LogPattern, IsLookedForWhereItsAnchorMayStand) {
  const Pattern first("loss_of {loss}", "test", ""), later("it: {loss} of_run", "test", "");
  ASSERT_EQ(first.anchor(), "loss_of");
  ASSERT_EQ(later.anchor(), "of_run");
  const auto found_in = [](const Pattern& pattern, std::string_view line, Places anchors) {
    std::vector<Figure> figures;
    return pattern.find({line}, figures, anchors) ? figures.at(0).number : -1;
  };
  EXPECT_EQ(found_in(first, "loss_of 1 loss_of 2", {}), 1);
  EXPECT_EQ(found_in(first, "loss_of 1 loss_of 2", {10, 10}), 2);
  EXPECT_EQ(found_in(first, "loss_of x loss_of 2", {0, 10}), 2);
  EXPECT_EQ(found_in(first, "loss_of x loss_of 2", {0, 0}), -1);
  EXPECT_EQ(found_in(later, "it: it: 1 of_run it: 2", {10, 10}), 1);
  EXPECT_EQ(found_in(later, "of_run it: 2 of_run", {0, 13}), 2);
  EXPECT_EQ(found_in(later, "of_run it: 2 of_run", {0, 0}), -1);
}

TEST(LogPattern, IsNotSlowedByALineMadeToBeLikeIt) {
  std::string line;
  while (line.size() < 4000) line += "a b: 1 ";
  std::vector<Figure> figures;
  const Pattern pattern("a {*}b: {step} {*}b: {step} {*}c: {step}", "test", "");
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(pattern.find({line}, figures));
}

}  // namespace
}  // namespace planwright::launcher
