#pragma once

#include <string>

namespace planwright::testing {

/// A TOML file for `tune`: the smallest model of the presets on two CPU ranks of one thread each.
/// Four data-parallel plans or fewer; `micro_batch` is a TOML list, `budget` the lines of its table
/// besides the steps, which are two.
inline std::string small_study(const std::string& micro_batch, const std::string& budget) {
  return R"([model]
model = "tiny-llama-kind"
[cluster]
device = "cpu"
devices = 2
memory = "1GiB"
threads = 1
[job]
seq = 32
global_batch = 8
precision = "fp32"
[space]
tp = 1
pp = 1
zero = [0, 1]
recompute = ["none"]
loss = "plain"
micro_batch = )" +
         micro_batch + R"(
[budget]
steps = 2
no_benchmark = true
)" + budget;
}

}  // namespace planwright::testing
