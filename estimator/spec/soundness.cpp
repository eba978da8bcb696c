#include "estimator/spec/soundness.h"

#include <algorithm>
#include <limits>
#include <string>

#include "estimator/spec/error.h"

namespace planwright {
namespace {

constexpr double kMostCounted = 1125899906842624.0;  // 2^50; with 18 bytes each below 2^63
constexpr double kMostDevices = 1e9;
constexpr double kMostExperts = 1048576.0;  // of all layers; published models have 25000
constexpr double kFastest = 1e30;
constexpr double kLongest_s = 1e6;

double real(std::int64_t value) { return static_cast<double>(value); }

/// Names the keys of one object of the file.
class Checked {
 public:
  Checked(std::string source, std::string object)
      : source_(std::move(source)), object_(std::move(object)) {}

  void name(const char* key, const std::string& value) const {
    const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
    if (std::any_of(value.begin(), value.end(), control)) {
      refuse(key, "", "must be of printable characters");
    }
  }
  void count(const char* key, std::int64_t value,
             std::int64_t most = std::numeric_limits<std::int64_t>::max()) const {
    if (value < 1) refuse(key, std::to_string(value), "must be at least 1");
    if (value > most) {
      refuse(key, std::to_string(value), "must be at most " + std::to_string(most));
    }
  }
  /// A rate in a unit in which anything real is at least one.
  void rate(const char* key, double value) const {
    if (!(value >= 1 && value <= kFastest)) {
      refuse(key, std::to_string(value), "must be a number from 1 to 10^30");
    }
  }
  /// Zero stands for one that is not known.
  void rate_if_known(const char* key, double value) const {
    if (value != 0) rate(key, value);
  }
  void seconds(const char* key, double value) const {
    if (!(value >= 0 && value <= kLongest_s)) {
      refuse(key, std::to_string(value), "must be a number of seconds from 0 to 10^6");
    }
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& value,
                           const std::string& rule) const {
    throw InputError({source_, object_ + "." + key, value, rule, ""});
  }

 private:
  std::string source_;
  std::string object_;
};

void check_experts(const Checked& at, const MoeSpec& moe) {
  at.count("experts", moe.experts, kMostSize);
  at.count("top_k", moe.top_k, moe.experts);
  at.count("ffn", moe.ffn, kMostSize);
}

void check_mixers(const Checked& at, const BlockSpec& block) {
  if (block.latent) {
    at.count("latent.kv_rank", block.latent->kv_rank, kMostSize);
    at.count("latent.value_dim", block.latent->value_dim, kMostSize);
  }
  if (block.mamba) {
    at.count("mamba.inner", block.mamba->inner, kMostSize);
    at.count("mamba.state", block.mamba->state, kMostSize);
    at.count("mamba.conv", block.mamba->conv, kMostSize);
    at.count("mamba.dt_rank", block.mamba->dt_rank, kMostSize);
  }
}

void check_block(const std::string& source, const BlockSpec& block) {
  const Checked at(source, "model.runs.block");
  check_mixers(at, block);
  if (block.moe) {
    check_experts(Checked(source, "model.runs.block.moe"), *block.moe);
  } else if (!block.mamba) {
    at.count("ffn", block.ffn);
  }
  if (block.mamba) return;
  at.count("heads", block.heads);
  at.count("kv_heads", block.kv_heads);
  at.count("head_dim", block.head_dim);
  if (block.heads % block.kv_heads != 0) {
    at.refuse("kv_heads", std::to_string(block.kv_heads),
              "must divide heads = " + std::to_string(block.heads));
  }
}

void check_lora(const ModelSpec& model, const Checked& at) {
  constexpr std::int64_t kMostRank = 1 << 16;
  if (model.lora.rank > kMostRank) {
    at.refuse("lora.rank", std::to_string(model.lora.rank),
              "must be at most " + std::to_string(kMostRank));
  }
  for (const BlockRun& run : model.runs) {
    const std::string broken = broken_targets(model.lora, run.block);
    if (!broken.empty()) at.refuse("lora.targets", "", broken);
  }
}

void check_model(const ModelSpec& model, const std::string& source) {
  const Checked at(source, "model");
  at.name("name", model.name);
  at.count("hidden", model.hidden);
  at.count("vocab", model.vocab);
  if (model.positions == Positions::learned) at.count("max_positions", model.max_positions);
  if (model.runs.empty()) at.refuse("runs", "[]", "must hold at least one block");
  for (const BlockRun& run : model.runs) {
    const Checked in_run(source, "model.runs");
    in_run.count("count", run.count, kMostLayers);
    check_block(source, run.block);
  }
  if (model.runs.size() > kMostLayers || model.layers() > kMostLayers) {
    at.refuse("runs", std::to_string(model.runs.size()),
              "must be at most " + std::to_string(kMostLayers) + " blocks together");
  }
  require_countable(model, source);
  check_lora(model, at);
}

void check_cluster(const ClusterSpec& cluster, const std::string& source) {
  const Checked at(source, "cluster");
  if (real(cluster.per_node) * real(cluster.nodes) > kMostDevices) {
    at.refuse("nodes", std::to_string(cluster.nodes), "must make at most 10^9 devices");
  }
  const Checked device(source, "cluster.device");
  device.name("name", cluster.device.name);
  device.count("memory_bytes", cluster.device.memory.value);
  device.rate_if_known("memory_bytes_per_s", cluster.device.memory_bandwidth.value);
  for (const auto& peak : {cluster.device.fp64, cluster.device.fp32, cluster.device.tf32,
                           cluster.device.bf16, cluster.device.fp16, cluster.device.fp8}) {
    if (peak) device.rate("flops_per_s", peak->value);
  }
  if (cluster.devices() > 1 && cluster.links.empty()) {
    at.refuse("links", "[]", "must hold one that spans all devices");
  }
  const Checked link(source, "cluster.links");
  for (const Link& each : cluster.links) {
    link.name("name", each.name);
    link.rate("bytes_per_s", each.bandwidth.value);
    link.seconds("latency_s", each.latency.value);
  }
}

void check_workload(const Workload& workload, bool batch_is_free, const std::string& source) {
  const Checked at(source, "workload");
  at.count("seq", workload.seq);
  if (!batch_is_free || workload.global_batch != 0) {
    at.count("global_batch", workload.global_batch);
  }
  if (real(workload.seq) * real(workload.global_batch) > kMostCounted) {
    const bool long_sequence = workload.seq > workload.global_batch;
    at.refuse(long_sequence ? "seq" : "global_batch",
              std::to_string(std::max(workload.seq, workload.global_batch)),
              "must make at most 2^50 tokens in a step");
  }
  const auto below_one = [&](const char* key, double value) {
    if (!(value >= 0 && value < 1)) {
      at.refuse(key, std::to_string(value), "must be from 0 to below 1");
    }
  };
  below_one("headroom.fraction", workload.headroom.fraction);
  below_one("hidden_dropout", workload.hidden_dropout);
  below_one("attention_dropout", workload.attention_dropout);
}

/// Not less than the block's parameters.
double most_of_block(const ModelSpec& model, const BlockSpec& b) {
  const double hidden = real(model.hidden), width = real(b.heads) * real(b.head_dim);
  double ffn = real(b.ffn), total = 0;
  if (b.moe) {
    ffn = real(b.moe->experts) * real(b.moe->ffn) + real(b.moe->shared_ffn);
    total += hidden * real(b.moe->experts);
  }
  if (b.latent) {
    const double ranks = real(b.latent->kv_rank) + real(b.latent->q_rank);
    const double values = real(b.heads) * real(b.latent->value_dim);
    total += (ranks + real(b.latent->rope_dim)) * (hidden + 2 * width + values) + hidden * values;
  }
  if (b.mamba) {
    const MambaSpec& m = *b.mamba;
    total +=
        real(m.inner) * (3 * hidden + real(m.conv) + 2 * real(m.dt_rank) + 3 * real(m.state) + 8);
  }
  // Adapters: of each target inputs and outputs, which are at most these.
  const double sides = hidden + 3 * width + 2 * ffn;
  return total + hidden * (4 * width + 3 * ffn) +
         real(model.lora.rank) * real(kWordCount<LoraTarget>) * sides;
}

}  // namespace

void require_countable(const ModelSpec& model, const std::string& source) {
  const double rows = 2 * real(model.vocab) + real(model.max_positions) + real(model.token_types);
  double total =
      rows * (real(model.hidden) + real(model.embedding_width)) + real(model.tower_parameters);
  for (const BlockRun& run : model.runs) {
    total += real(run.count) * most_of_block(model, run.block);
  }
  double experts = 0;
  for (const BlockRun& run : model.runs) {
    if (run.block.moe) experts += real(run.count) * real(run.block.moe->experts);
  }
  if (experts > kMostExperts) {
    throw InputError({source, "", "", "it has more than 2^20 experts in all its layers", ""});
  }
  if (total <= kMostCounted) return;
  throw InputError({source, "", "", "its sizes make a model of more than 2^50 parameters", ""});
}

void require_sound(const Problem& problem, const std::string& source) {
  check_model(problem.model, source);
  check_cluster(problem.cluster, source);
  check_workload(problem.workload, problem.target == kCommandTarget, source);
  const bool adapts = problem.workload.job == Job::lora || problem.workload.job == Job::qlora;
  if (adapts != problem.model.lora.freezes()) {
    Checked(source, "model")
        .refuse("lora.rank", std::to_string(problem.model.lora.rank),
                adapts ? "must be at least 1 for the job " + std::string(word(problem.workload.job))
                       : "must be 0 for a job without adapters");
  }
  if (capacity(problem).value < 1) {
    Checked(source, "workload")
        .refuse("headroom", std::to_string(problem.workload.headroom.bytes.value) + " bytes",
                "must leave some of the device's memory");
  }
}

}  // namespace planwright
