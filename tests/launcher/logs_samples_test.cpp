#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "estimator/spec/text_file.h"
#include "launcher/logs/generic_format.h"
#include "launcher/logs/log_reader.h"
#include "launcher/logs/step_times.h"
#include "launcher/targets/deepspeed/log.h"
#include "launcher/targets/hf_trainer/log.h"
#include "launcher/targets/megatron/log.h"
#include "launcher/targets/nanotron/log.h"
#include "launcher/targets/torchtitan/log.h"

/// Logs of a few lines, written for this test in each framework's and version's format.
namespace planwright::launcher {
namespace {

constexpr double kNone = -1;
constexpr StepSize kSize{.tokens = 65536, .samples = 32, .devices = 8};

struct Sample {
  const char* file;
  double step_s = kNone;
  StepEvidence evidence = StepEvidence::stated;
  double allocated_gib = kNone;  ///< the peak of the rank with most
  double reserved_gib = kNone;
  OutcomeKind kind = OutcomeKind::ok;  ///< of the cause
  int rank = -1;                       ///< of the cause; -1: no line names it
};

using enum StepEvidence;
constexpr double kGB = 1e9 / kGiB;

const Sample kSamples[] = {
    {"torchtitan_0.1.0.log", 1.0, token_rate, kNone, 52.5},
    {"torchtitan_0.2.0.log", 2.0, token_rate, kNone, 52.5},
    {"torchtitan_0.2.1_plain.log", 4.0, token_rate, kNone, 33.0},
    {"torchtitan_0.2.2.log", (8192 / 16000.0 + 0.5) / 2, token_rate, kNone, 33.5},
    {"torchtitan_main_quantised.log", (8192 / 16000.0 + 0.25) / 2, token_rate, kNone, 61.0},
    {"torchtitan_nan.log", 1.0, token_rate, kNone, 33.5},
    {"torchtitan_out_of_memory.log", 8192 / 900.0, token_rate, kNone, 74.5,
     OutcomeKind::out_of_memory, 3},
    {"deepspeed_0.19_throughput.log", 0.5, sample_rate, 31.75},
    {"deepspeed_0.19_timers.log", 0.641, parts},
    {"deepspeed_0.12_timers_logger.log", 0.036, parts},
    {"deepspeed_0.8_timers_forward.log", 1.0, parts},
    {"deepspeed_0.5_throughput.log", 1.28, sample_rate, 7.75},
    {"deepspeed_0.3_throughput.log", 0.64, mean},
    {"deepspeed_pipeline.log", 0.8, stated},
    {"deepspeed_memory_usage.log", kNone, stated, 30.75, 34},
    {"deepspeed_memory_breakdown.log", 0.35, parts, 6.25, 7.5},
    {"deepspeed_interleaved.log", 1.0, sample_rate, 6.5},
    {"deepspeed_host_killed.log", 32 / 61.0, sample_rate, 31.75, kNone,
     OutcomeKind::host_out_of_memory},
    {"hf_trainer_4_bar_s_per_it.log", 2.0, stated},
    {"hf_trainer_4_bar_it_per_s.log", 0.0625, step_rate},
    {"hf_trainer_4_dicts.log", 4.0, mean},
    {"hf_trainer_5_quoted.log", 4.0, mean},
    {"hf_trainer_metrics_block.log", 2.0, mean, 8.0},
    {"hf_trainer_memory_dict.log", 2.0, mean, 7.0},
    {"hf_trainer_old_out_of_memory.log", kNone, stated, kNone, kNone, OutcomeKind::out_of_memory},
    {"hf_trainer_missing_package.log", kNone, stated, kNone, kNone, OutcomeKind::environment},
    {"hf_trainer_deepspeed.log", 1.5, stated},
    {"megatron_0.14.log", 2.05, stated, 52, 54},
    {"megatron_0.19.log", 1.25, stated, 48, 50},
    {"megatron_out_of_memory.log", 7.0, stated, 75, 76, OutcomeKind::out_of_memory, 5},
    {"nanotron_main.log", 1.21, stated, 21504.25 / 1024, 30720.5 / 1024},
    {"nanotron_0.4.log", 0.65, stated, 21504.25 / 1024, 30720.5 / 1024},
    {"generic_key_value.log", 0.5, stated, 6.0},
    {"generic_rates.log", 2.0, token_rate},
    {"generic_decimal_comma.log", 0.75, stated, 12.5},
    {"generic_json_lines.log", 0.40025, stated},
    {"generic_srun_label.log", 0.4, stated, kNone, 30.5 * kGB},
    {"generic_mpirun.log", 0.26, stated},
    {"generic_megatron_family.log", 0.8125, stated, 15001.5 / 1024, 16120.0 / 1024},
    {"generic_nanotron_family.log", 1.21, stated},
    {"generic_cut.log", 0.5, stated},
    {"generic_hang.log", 0.5, stated, kNone, kNone, OutcomeKind::hung, 1},
    {"generic_port_taken.log", kNone, stated, kNone, kNone, OutcomeKind::environment, 0},
    {"generic_exception.log", kNone, stated, kNone, kNone, OutcomeKind::crashed, 1},
};

/// By the file's name, as a target would choose them; the generic one is behind each.
std::vector<LogFormat> formats_of(const std::string& file) {
  std::vector<LogFormat> formats;
  const auto is = [&](const char* name) { return file.find(name) != file.npos; };
  if (is("deepspeed")) formats.push_back(targets::deepspeed::log_format());
  if (is("hf_trainer")) formats.push_back(targets::hf_trainer::log_format());
  if (file.starts_with("megatron")) formats.push_back(targets::megatron::log_format());
  if (file.starts_with("nanotron")) formats.push_back(targets::nanotron::log_format());
  if (is("torchtitan")) formats.push_back(targets::torchtitan::log_format());
  formats.push_back(generic_log_format());
  return formats;
}

std::string text_of(const Sample& sample) {
  return read_file(std::string(PLANWRIGHT_SOURCE_DIR "/tests/data/logs/") + sample.file);
}

LogSummary read_in_chunks(const std::string& text, const std::vector<LogFormat>& formats,
                          std::size_t first, std::size_t rest) {
  LogReader reader(formats);
  reader.append(std::string_view(text).substr(0, first));
  for (std::size_t at = first; at < text.size(); at += rest) {
    reader.append(std::string_view(text).substr(at, rest));
  }
  return reader.finish();
}

LogSummary read(const Sample& sample) {
  const std::string text = text_of(sample);
  return read_in_chunks(text, formats_of(sample.file), text.size(), 1);
}

double largest_gib(const LogSummary& summary, std::optional<MemoryFigure> LoggedMemory::*which) {
  double largest = kNone;
  for (const auto& [rank, memory] : summary.memory) {
    if (memory.*which) largest = std::max(largest, gib((memory.*which)->bytes));
  }
  return largest;
}

TEST(LogSamples, GiveTheStepTimeOfEachFramework) {
  for (const Sample& sample : kSamples) {
    const auto times = step_times(read(sample), kSize, 1);
    ASSERT_EQ(times.has_value(), sample.step_s != kNone) << sample.file;
    if (!times) continue;
    EXPECT_NEAR(times->median(), sample.step_s, 1e-6 * sample.step_s) << sample.file;
    EXPECT_EQ(times->evidence, sample.evidence) << sample.file;
  }
}

TEST(LogSamples, GiveThePeaksOfEachFramework) {
  for (const Sample& sample : kSamples) {
    const LogSummary summary = read(sample);
    EXPECT_NEAR(largest_gib(summary, &LoggedMemory::allocated_peak), sample.allocated_gib, 1e-6)
        << sample.file;
    EXPECT_NEAR(largest_gib(summary, &LoggedMemory::reserved_peak), sample.reserved_gib, 1e-6)
        << sample.file;
  }
}

TEST(LogSamples, GiveTheCauseOfTheEnd) {
  for (const Sample& sample : kSamples) {
    const auto cause = cause_in_log(read(sample));
    EXPECT_EQ(cause ? cause->failure.kind : OutcomeKind::ok, sample.kind) << sample.file;
    EXPECT_EQ(cause ? cause->rank.value_or(-1) : -1, sample.rank) << sample.file;
  }
}

TEST(LogSamples, SayTheSameHoweverTheyAreCutIntoChunks) {
  for (const Sample& sample : kSamples) {
    const std::string text = text_of(sample);
    const auto formats = formats_of(sample.file);
    const LogSummary whole = read_in_chunks(text, formats, text.size(), 1);
    EXPECT_EQ(read_in_chunks(text, formats, 0, 1), whole) << sample.file;
    for (std::size_t first = 1; first < text.size(); first += 31) {
      ASSERT_EQ(read_in_chunks(text, formats, first, text.size()), whole)
          << sample.file << " cut at " << first;
    }
  }
}

/// Whatever a log is cut off at, what it says of time and memory is what it said before.
TEST(LogSamples, SayNothingWrongWhenTheyEndEarly) {
  for (const Sample& sample : kSamples) {
    const std::string text = text_of(sample);
    const LogSummary whole = read(sample);
    for (std::size_t end = 0; end < text.size(); end += 37) {
      const std::string begin = text.substr(0, end);
      const LogSummary part = read_in_chunks(begin, formats_of(sample.file), end, 1);
      ASSERT_LE(part.steps.size(), whole.steps.size()) << sample.file << " up to " << end;
      for (std::size_t i = 0; i + 1 < part.steps.size(); ++i) {
        ASSERT_EQ(part.steps[i], whole.steps[i]) << sample.file << " up to " << end;
      }
      for (const RateLine& rate : part.rates) {
        ASSERT_NE(std::find(whole.rates.begin(), whole.rates.end(), rate), whole.rates.end())
            << sample.file << " up to " << end;
      }
    }
  }
}

TEST(LogSamples, KeepWhatALineStatesWithItsStepAndRank) {
  const LogSummary summary = read({"deepspeed_interleaved.log"});
  ASSERT_EQ(summary.rates.size(), 6U);
  EXPECT_EQ(summary.rates[0], (RateLine{1, 3, RateKind::samples, 32.0}));
  EXPECT_EQ(summary.rates[1], (RateLine{0, 3, RateKind::samples, 40.0}));
  EXPECT_EQ(summary.means.samples_per_s, 30.0);
  EXPECT_EQ(summary.last_step, 5);
  const MemoryFigure peak = summary.memory.at(1).allocated_peak.value();
  EXPECT_EQ(peak.stated, 6.5);
  EXPECT_EQ(peak.unit, LogUnit::gb);
  EXPECT_EQ(gib(peak.bytes), 6.5);
}

TEST(LogSamples, CountLossesThatAreNoNumbers) {
  const Losses losses = read({"torchtitan_nan.log"}).losses;
  EXPECT_EQ(losses.seen, 3);
  EXPECT_EQ(losses.not_finite, 2);
  EXPECT_EQ(losses.first_not_finite_step, 2);
  EXPECT_EQ(losses.last, 11.9);
  EXPECT_EQ(read({"hf_trainer_5_quoted.log"}).losses.not_finite, 1);
  EXPECT_EQ(read({"generic_json_lines.log"}).losses.first_not_finite_step, 2);
}

}  // namespace
}  // namespace planwright::launcher
