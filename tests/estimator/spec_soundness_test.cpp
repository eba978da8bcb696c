#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <string>

#include "estimator/spec/error.h"
#include "estimator/spec/soundness.h"
#include "tests/support/fake_traits.h"

namespace planwright {
namespace {

Problem good() { return testing::fake_problem(testing::tiny_gpt(), 2, Precision::bf16); }

struct Unsound {
  const char* key;
  const char* rule;
  std::function<void(Problem&)> spoil;
};

TEST(Soundness, AProblemOfTheTestsIsSound) { EXPECT_NO_THROW(require_sound(good(), "file")); }

TEST(Soundness, NamesWhatCannotBeComputedWith) {
  const Unsound cases[] = {
      {"model.hidden", "must be at least 1", [](Problem& p) { p.model.hidden = 0; }},
      {"model.vocab", "must be at least 1", [](Problem& p) { p.model.vocab = 0; }},
      {"model.max_positions", "must be at least 1", [](Problem& p) { p.model.max_positions = 0; }},
      {"model.runs", "must hold at least one block", [](Problem& p) { p.model.runs.clear(); }},
      {"model.runs.count", "must be at least 1", [](Problem& p) { p.model.runs[0].count = 0; }},
      {"model.runs.count", "must be at most 4096",
       [](Problem& p) { p.model.runs[0].count = 1 << 20; }},
      {"model.runs", "must be at most 4096 blocks together",
       [](Problem& p) {
         p.model.runs[0].count = 2500;
         p.model.runs.push_back(p.model.runs[0]);
       }},
      {"model.runs.block.kv_heads", "must divide heads = 3",
       [](Problem& p) { p.model.runs[0].block.kv_heads = 2; }},
      {"model.runs.block.ffn", "must be at least 1",
       [](Problem& p) { p.model.runs[0].block.ffn = -4; }},
      {"", "more than 2^50 parameters", [](Problem& p) { p.model.vocab = std::int64_t{1} << 60; }},
      {"", "more than 2^50 parameters",  // of the adapters alone
       [](Problem& p) {
         p.workload.job = Job::lora;
         p.model.lora = {1 << 16, {LoraTarget::up_proj}};
         p.model.runs[0].block.ffn = std::int64_t{1} << 40;
       }},
      {"model.lora.rank", "must be at most 65536",
       [](Problem& p) {
         p.workload.job = Job::lora;
         p.model.lora = {(1 << 16) + 1, {LoraTarget::up_proj}};
       }},
      {"model.lora.rank", "must be at least 1 for the job lora",
       [](Problem& p) { p.workload.job = Job::lora; }},
      {"model.lora.rank", "must be 0 for a job without adapters",
       [](Problem& p) {
         p.model.lora = {8, {LoraTarget::up_proj}};
       }},
      {"model.lora.targets", "must name at least one module",
       [](Problem& p) {
         p.workload.job = Job::lora;
         p.model.lora.rank = 8;
       }},
      {"workload.hidden_dropout", "must be from 0 to below 1",
       [](Problem& p) { p.workload.hidden_dropout = 1; }},
      {"workload.attention_dropout", "must be from 0 to below 1",
       [](Problem& p) { p.workload.attention_dropout = NAN; }},
      {"cluster.nodes", "must make at most 10^9 devices",
       [](Problem& p) { p.cluster.nodes = p.cluster.per_node = 1 << 30; }},
      {"cluster.device.memory_bytes", "must be at least 1",
       [](Problem& p) { p.cluster.device.memory = {}; }},
      {"cluster.device.memory_bytes_per_s", "must be a number from 1 to 10^30",
       [](Problem& p) { p.cluster.device.memory_bandwidth = BytesPerSecond{1e-307}; }},
      {"model.name", "must be of printable characters", [](Problem& p) { p.model.name = "a\nb"; }},
      {"workload.headroom", "must leave some of the device's memory",
       [](Problem& p) { p.workload.headroom.bytes = Bytes{std::int64_t{1} << 40}; }},
      {"cluster.device.flops_per_s", "must be a number from 1 to 10^30",
       [](Problem& p) { p.cluster.device.fp32 = FlopsPerSecond{-1}; }},
      {"cluster.links", "must hold one that spans all devices",
       [](Problem& p) { p.cluster.links.clear(); }},
      {"cluster.links.bytes_per_s", "must be a number from 1 to 10^30",
       [](Problem& p) { p.cluster.links[0].bandwidth = BytesPerSecond{NAN}; }},
      {"cluster.links.latency_s", "must be a number of seconds from 0 to 10^6",
       [](Problem& p) { p.cluster.links[0].latency = Seconds{-1}; }},
      {"workload.seq", "must be at least 1", [](Problem& p) { p.workload.seq = 0; }},
      {"workload.global_batch", "must make at most 2^50 tokens in a step",
       [](Problem& p) { p.workload.seq = p.workload.global_batch = std::int64_t{1} << 40; }},
      {"workload.headroom.fraction", "must be from 0 to below 1",
       [](Problem& p) { p.workload.headroom.fraction = 1; }},
  };
  for (const Unsound& each : cases) {
    SCOPED_TRACE(each.rule);
    Problem problem = good();
    each.spoil(problem);
    try {
      require_sound(problem, "file");
      ADD_FAILURE() << "no error for " << each.key;
    } catch (const InputError& error) {
      EXPECT_EQ(error.fault().file, "file");
      EXPECT_EQ(error.fault().key, each.key);
      EXPECT_NE(error.fault().rule.find(each.rule), std::string::npos) << error.fault().rule;
    }
  }
}

}  // namespace
}  // namespace planwright
