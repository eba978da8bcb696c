#include <string>
#include <vector>

#include "choices.h"
#include "launcher/logs/generic_format.h"
#include "launcher/logs/log_reader.h"
#include "launcher/logs/step_times.h"
#include "launcher/targets/deepspeed/log.h"
#include "launcher/targets/hf_trainer/log.h"
#include "launcher/targets/megatron/log.h"
#include "launcher/targets/megatron_deepspeed/log.h"
#include "launcher/targets/nanotron/log.h"
#include "launcher/targets/pytorch/log.h"
#include "launcher/targets/torchtitan/log.h"

/// Logs of any bytes, or of the words that readers look for with any bytes between them, in chunks
/// of any sizes: nothing is thrown, the summary does not depend on the chunks, and what it keeps
/// can be shown. Any text as a pattern: refused, or found or not.
namespace planwright::launcher {
namespace {

constexpr const char* kWords[] = {"step: ",
                                  "loss: ",
                                  "memory: ",
                                  "GiB(",
                                  "%) tps: ",
                                  "step_time=",
                                  " s/it",
                                  "it/s]",
                                  "%|",
                                  "| ",
                                  "/5 [",
                                  "<",
                                  ", ",
                                  "'train_steps_per_second': ",
                                  "time (ms) | fwd: ",
                                  " | bwd: ",
                                  " | step: ",
                                  "CurrSamplesPerSec=",
                                  "MaxMemAllocated=",
                                  "MA ",
                                  " GB Max_MA ",
                                  "tokens/s",
                                  "\r",
                                  "\n",
                                  "\r\n",
                                  "\x1b[31m",
                                  "\x1b",
                                  "[rank1]: ",
                                  "[default0]:",
                                  "3: ",
                                  "[1,2]<stdout>:",
                                  "[Rank 4] ",
                                  "Traceback (most recent call last):\n",
                                  "ValueError: ",
                                  "CUDA out of memory. Tried to allocate ",
                                  "GPU 0 has a total capacity of ",
                                  " GiB of which ",
                                  " is free",
                                  "nan",
                                  "inf",
                                  "1e308",
                                  "-1",
                                  "1,234.5",
                                  "1.234,5",
                                  "12",
                                  "0.5",
                                  "99999999999999999999",
                                  "\xC2\xA0",
                                  "\xE2\x80\xAF",
                                  "MB",
                                  "before_init_mem_gpu = ",
                                  "{'loss': '",
                                  "Connection closed by peer",
                                  " local_rank: ",
                                  "(exitcode: -9)",
                                  "validate step: ",
                                  " iteration        1/      10 | consumed samples: ",
                                  "elapsed time per iteration (ms): ",
                                  "memory (MB) | allocated: ",
                                  " | max allocated: "};

std::string log_of(fuzz::Choices& choices) {
  std::string text;
  while (choices.more()) {
    const std::size_t chosen = choices.below(std::size(kWords) + 3);
    text += chosen < std::size(kWords) ? kWords[chosen]
                                       : std::string(1, static_cast<char>(choices.byte()));
  }
  return text;
}

LogSummary read(const std::string& text, const std::vector<std::size_t>& sizes) {
  // To prepare one takes ten times as long as to read such a log.
  static const LogReader kPrepared(
      {targets::deepspeed::log_format(), targets::hf_trainer::log_format(),
       targets::megatron::log_format(), targets::megatron_deepspeed::log_format(),
       targets::nanotron::log_format(), targets::pytorch::log_format(),
       targets::torchtitan::log_format(), generic_log_format()});
  LogReader reader = kPrepared;
  std::size_t at = 0;
  for (std::size_t i = 0; at < text.size(); ++i) {
    const std::size_t size = sizes.empty() ? text.size() : sizes[i % sizes.size()];
    reader.append(std::string_view(text).substr(at, size));
    at += size;
  }
  return reader.finish();
}

void check(const LogSummary& summary) {
  for (const StepLine& each : summary.steps) fuzz::require(each.seconds > 0);
  for (const auto& [rank, failure] : summary.failures) {
    fuzz::require(!Json(failure.line).dump().empty());  // throws on what is no UTF-8
  }
  const auto times = step_times(summary, {.tokens = 4096, .samples = 4, .devices = 2}, 1);
  fuzz::require(!times || !times->seconds.empty());
  cause_in_log(summary);
}

}  // namespace
}  // namespace planwright::launcher

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace planwright;
  fuzz::Choices choices(data, size);
  const std::uint8_t kind = choices.byte();
  if (kind % 8 == 7) {
    const std::string pattern = choices.text(64), line = choices.text(64);
    fuzz::refused_or_fine([&] {
      std::vector<launcher::Figure> figures;
      launcher::Pattern(pattern, "fuzz", "").find({line, kind % 16 == 7, false}, figures);
    });
    return 0;
  }
  std::vector<std::size_t> sizes;
  for (int i = kind % 3; i >= 0; --i) sizes.push_back(1 + choices.below(300));
  const std::string text = kind % 2 == 0 ? std::string(reinterpret_cast<const char*>(data), size)
                                         : launcher::log_of(choices);
  const launcher::LogSummary whole = launcher::read(text, {});
  launcher::check(whole);
  fuzz::require(launcher::read(text, sizes) == whole);
  return 0;
}
