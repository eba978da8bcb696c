#include <gtest/gtest.h>

#include "estimator/spec/error.h"
#include "launcher/logs/log_reader.h"
#include "launcher/logs/log_table.h"

namespace planwright::launcher {
namespace {

LogFormat format_of(const std::string& text) {
  return log_format_of_toml(toml::parse(text), "job.toml", "launch.log");
}

TEST(LogTable, MakesAFormatThatReadsAPersonsLog) {
  const LogFormat format = format_of(
      "lines = ['it {step} of {steps}: {step_ms} ms']\nignored = ['check']\ndecimal_comma = true\n"
      "[keys]\n'mem (GB)' = 'reserved_peak_gb'\nthroughput = 'tokens_per_s'\n'{x}' = 'loss'\n");
  LogReader reader({format});
  reader.append(
      "it 1 of 9: 1,500 ms\n{'throughput': '812,5', 'mem (GB)': 12.0, '{x}'=3}\n"
      "check it 2 of 9: 5 ms\n");
  const LogSummary summary = reader.finish();
  ASSERT_EQ(summary.steps.size(), 1U);
  EXPECT_DOUBLE_EQ(summary.steps[0].seconds, 0.0015);
  EXPECT_EQ(summary.rates.at(0).per_second, 812.5);
  EXPECT_EQ(summary.memory.at(std::nullopt).reserved_peak->bytes, Bytes{12'000'000'000});
  EXPECT_EQ(summary.losses.last, 3);
}

TEST(LogTable, RefusesWhatItDoesNotKnow) {
  struct Case {
    const char* text;
    const char* key;
    const char* nearest;
  };
  const Case cases[] = {
      {"", "launch.log", ""},
      {"line = ['x']", "launch.log.line", "lines"},
      {"lines = 'step {step}'", "launch.log.lines", ""},
      {"lines = [1]", "launch.log.lines", ""},
      {"lines = ['step {stp}']", "launch.log.lines", "{step}"},
      {"ignored = ['x']", "launch.log.ignored", ""},
      {"keys = 1", "launch.log.keys", ""},
      {"keys = {ab = 1}", "launch.log.keys.ab", ""},
      {"keys = {ab = 'step_tme'}", "launch.log.keys.ab", "step_time"},
      {"keys = {a = 'step_s'}", "launch.log.keys.a", ""},
      {"lines = ['ab {step}']\ndecimal_comma = 1", "launch.log.decimal_comma", ""},
  };
  for (const Case& each : cases) {
    try {
      format_of(each.text);
      ADD_FAILURE() << each.text;
    } catch (const InputError& error) {
      EXPECT_EQ(error.fault().file, "job.toml");
      EXPECT_EQ(error.fault().key, each.key) << each.text;
      EXPECT_EQ(error.fault().nearest, each.nearest) << error.what();
    }
  }
}

}  // namespace
}  // namespace planwright::launcher
