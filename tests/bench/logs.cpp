#include <fmt/core.h>
#include <sys/resource.h>
#include <time.h>

#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "launcher/clock.h"
#include "launcher/logs/generic_format.h"
#include "launcher/logs/log_reader.h"
#include "launcher/targets/deepspeed/log.h"
#include "launcher/targets/hf_trainer/log.h"
#include "launcher/targets/megatron/log.h"
#include "launcher/targets/nanotron/log.h"
#include "launcher/targets/torchtitan/log.h"

/// How fast a log is read: 1 GB, mixed of what training runs write, by all formats at once. Fails
/// above 5 s of one core, or if the memory grows by more than 32 MiB.
namespace planwright::launcher {
namespace {

constexpr std::int64_t kBytes = 1'000'000'000;
constexpr std::size_t kBlock = 16'000'000;
constexpr std::size_t kChunk = 65536;
constexpr double kAllowedSeconds = 5.0;
constexpr double kAllowedMiB = 32.0;

class Mixture {
 public:
  std::string text() {
    std::string text;
    text.reserve(kBlock + 1024);
    while (text.size() < kBlock) text += line();
    return text;
  }

 private:
  int below(int count) { return static_cast<int>(random_() % static_cast<unsigned>(count)); }
  double about(double value) { return value * (0.9 + 0.001 * below(200)); }

  std::string line() {
    ++step_;
    switch (below(10)) {
      case 0:
        return coloured_step();
      case 1:
      case 2:
        return bar();
      case 3:
        return dictionary();
      case 4:
        return throughput();
      case 5:
        return timers();
      case 6:
      case 7:
        return library_chatter();
      case 8:
        return warning();
      default:
        return own_words();
    }
  }
  std::string coloured_step() {
    return fmt::format(
        "[rank{}]:[titan] 2026-01-05 09:10:11,250 - root - INFO - \x1b[31mstep: {:2}  "
        "\x1b[32mloss: "
        "{:8.5f}  \x1b[38;2;180;60;0mgrad_norm: {:7.4f}  \x1b[38;2;54;234;195mmemory: "
        "{:5.2f}GiB(66.37%)  \x1b[34mtps: {},{:03}  \x1b[36mtflops: 345.67  \x1b[35mmfu: "
        "34.95%\x1b[39m\n",
        below(8), step_, about(7), about(1), about(50), below(9) + 1, below(1000));
  }
  std::string bar() {
    return fmt::format(
        "\r{:3}%|████████▌                      | {}/100000 [00:24<02:56, {:5.2f}s/it]", below(100),
        step_, about(2));
  }
  std::string dictionary() {
    return fmt::format(
        "\n{{'loss': '{:.4f}', 'grad_norm': '{:.4f}', 'learning_rate': '4.9e-05', 'epoch': "
        "'{:.2f}'}}\n",
        about(7), about(1), about(0.5));
  }
  std::string throughput() {
    return fmt::format(
        "[2026-01-05 09:10:11,300] [INFO] [timer.py:264:stop] "
        "epoch=0/micro_step={}/global_step={}, "
        "RunningAvgSamplesPerSec={:.12f}, CurrSamplesPerSec={:.12f}, MemAllocated={:.2f}GB, "
        "MaxMemAllocated={:.2f}GB\n",
        step_, step_, about(60), about(60), about(10), about(30));
  }
  std::string timers() {
    return fmt::format(
        "[Rank 0] time (ms) | fwd: {:.2f} | bwd: {:.2f} | bwd_inner: {:.2f} | bwd_allreduce: "
        "{:.2f} | "
        "step: {:.2f}\n",
        about(200), about(400), about(300), about(100), about(40));
  }
  std::string library_chatter() {
    return fmt::format(
        "node{}:{}:{} [{}] NCCL INFO Channel {:02}/{:02} : {}[{}] -> {}[{}] via P2P/CUMEM/read\n",
        below(16), below(90000), below(90000), below(8), below(32), 32, below(128), below(8),
        below(128), below(8));
  }
  std::string warning() {
    return "/opt/env/lib/python3.12/site-packages/torch/utils/checkpoint.py:1399: FutureWarning: "
           "the "
           "argument is deprecated; give use_reentrant explicitly in every call\n  return "
           "fn(*args, "
           "**kwargs)\n";
  }
  std::string own_words() {
    return fmt::format(
        "step {} | loss {:.4f} | {:.1f} ms/step | {} tokens/s | peak memory: {:.2f} GiB\n", step_,
        about(7), about(800), below(90000), about(60));
  }

  std::minstd_rand random_{1};
  int step_ = 0;
};

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// The most memory that the process has had.
double peak_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

int run() {
  const std::string block = Mixture().text();
  LogReader reader({targets::deepspeed::log_format(), targets::hf_trainer::log_format(),
                    targets::megatron::log_format(), targets::nanotron::log_format(),
                    targets::torchtitan::log_format(), generic_log_format()});
  const double memory = peak_mib(), wall = monotonic_s(), cpu = cpu_s();
  std::int64_t left = kBytes;
  for (std::size_t at = 0; left > 0; at = at + kChunk < block.size() ? at + kChunk : 0) {
    const auto size = std::min({kChunk, block.size() - at, static_cast<std::size_t>(left)});
    reader.append(std::string_view(block).substr(at, size));
    left -= static_cast<std::int64_t>(size);
  }
  const LogSummary summary = reader.finish();
  const double seconds = cpu_s() - cpu, wall_s = monotonic_s() - wall;
  const double growth = peak_mib() - memory;
  fmt::print(
      "{} MB in {:.2f} s of one core ({:.0f} MB/s; {:.2f} s passed): {} lines, {} steps, {} rates; "
      "memory grew by {:.1f} MiB.\n{:.0f} s and {:.0f} MiB are allowed.\n",
      summary.bytes / 1'000'000, seconds, kBytes / 1e6 / seconds, wall_s, summary.lines,
      summary.steps_seen, summary.rates_seen, growth, kAllowedSeconds, kAllowedMiB);
  const bool read_all = summary.steps_seen > 1'000'000 && summary.rates_seen > 1'000'000;
  return read_all && seconds <= kAllowedSeconds && growth <= kAllowedMiB ? 0 : 1;
}

}  // namespace
}  // namespace planwright::launcher

int main() {
  try {
    return planwright::launcher::run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "logs: {}\n", error.what());
    return 1;
  }
}
