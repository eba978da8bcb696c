#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

template <>
struct Fields<BlockSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"heads", &BlockSpec::heads, kNatural},
      Field{"kv_heads", &BlockSpec::kv_heads, kNatural},
      Field{"head_dim", &BlockSpec::head_dim, kNatural},
      Field{"ffn", &BlockSpec::ffn, kNatural},
      Field{"mlp", &BlockSpec::mlp},
      Field{"activation", &BlockSpec::activation},
      Field{"norm", &BlockSpec::norm},
      Field{"qkv_bias", &BlockSpec::qkv_bias},
      Field{"out_bias", &BlockSpec::out_bias},
      Field{"mlp_bias", &BlockSpec::mlp_bias},
      Field{"sliding_window", &BlockSpec::sliding_window, kNatural},
      Field{"qk_norm", &BlockSpec::qk_norm},
      Field{"residual", &BlockSpec::residual},
  };
};

template <>
struct Fields<LoraSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"rank", &LoraSpec::rank, kNatural},
      Field{"targets", &LoraSpec::targets},
  };
};

template <>
struct Fields<BlockRun> {
  static constexpr auto kFields = std::tuple{
      Field{"count", &BlockRun::count, kNatural},
      Field{"block", &BlockRun::block},
  };
};

template <>
struct Fields<ModelSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &ModelSpec::name, kAny, Hashed::no},  // of a file, which may be moved
      Field{"family", &ModelSpec::family},
      Field{"hidden", &ModelSpec::hidden, kNatural},
      Field{"vocab", &ModelSpec::vocab, kNatural},
      Field{"max_positions", &ModelSpec::max_positions, kNatural},
      Field{"positions", &ModelSpec::positions},
      Field{"rope_theta", &ModelSpec::rope_theta},
      Field{"norm_eps", &ModelSpec::norm_eps},
      Field{"tied_embeddings", &ModelSpec::tied_embeddings},
      Field{"runs", &ModelSpec::runs},
      Field{"lora", &ModelSpec::lora},
  };
};

template <>
struct Fields<DeviceSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &DeviceSpec::name},
      Field{"kind", &DeviceSpec::kind},
      Field{"memory_bytes", &DeviceSpec::memory, kNatural},
      Field{"memory_stated_bytes", &DeviceSpec::memory_stated, kNatural},
      Field{"fp64_flops_per_s", &DeviceSpec::fp64},
      Field{"fp32_flops_per_s", &DeviceSpec::fp32},
      Field{"tf32_flops_per_s", &DeviceSpec::tf32},
      Field{"bf16_flops_per_s", &DeviceSpec::bf16},
      Field{"fp16_flops_per_s", &DeviceSpec::fp16},
      Field{"fp8_flops_per_s", &DeviceSpec::fp8},
      Field{"memory_bytes_per_s", &DeviceSpec::memory_bandwidth},
      Field{"source", &DeviceSpec::source, kAny, Hashed::no},  // words about the numbers above
  };
};

template <>
struct Fields<Link> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &Link::name},
      Field{"bytes_per_s", &Link::bandwidth},
      Field{"latency_s", &Link::latency},
      Field{"span", &Link::span, kPositive},
  };
};

template <>
struct Fields<ClusterSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"device", &ClusterSpec::device},
      Field{"per_node", &ClusterSpec::per_node, kPositive},
      Field{"nodes", &ClusterSpec::nodes, kPositive},
      Field{"links", &ClusterSpec::links},
      Field{"host_memory_bytes", &ClusterSpec::host_memory},
      Field{"pcie_bytes_per_s", &ClusterSpec::pcie},
      Field{"price_per_device_hour", &ClusterSpec::price_per_device_hour, kAny,
            Hashed::no},  // changes what a plan costs, not which plan is best
      Field{"threads_per_rank", &ClusterSpec::threads_per_rank, kPositive},
  };
};

template <>
struct Fields<PrecisionRecipe> {
  static constexpr auto kFields = std::tuple{
      Field{"storage", &PrecisionRecipe::storage},   Field{"compute", &PrecisionRecipe::compute},
      Field{"gradient", &PrecisionRecipe::gradient}, Field{"master", &PrecisionRecipe::master},
      Field{"state", &PrecisionRecipe::state},
  };
};

template <>
struct Fields<Headroom> {
  static constexpr auto kFields = std::tuple{
      Field{"fraction", &Headroom::fraction},
      Field{"bytes", &Headroom::bytes, kNatural},
  };
};

template <>
struct Fields<Workload> {
  static constexpr auto kFields = std::tuple{
      Field{"job", &Workload::job},
      Field{"seq", &Workload::seq, kNatural},
      Field{"global_batch", &Workload::global_batch, kNatural},
      Field{"optimizer", &Workload::optimizer},
      Field{"precision", &Workload::precision},
      Field{"recipe", &Workload::recipe},
      Field{"hidden_dropout", &Workload::hidden_dropout},
      Field{"attention_dropout", &Workload::attention_dropout},
      Field{"headroom", &Workload::headroom},
  };
};

template <>
struct Fields<Problem> {
  static constexpr auto kFields = std::tuple{
      Field{"model", &Problem::model},
      Field{"cluster", &Problem::cluster},
      Field{"workload", &Problem::workload},
      Field{"target", &Problem::target},
      Field{"target_version", &Problem::target_version},
      Field{"traits_revision", &Problem::traits_revision},
  };
};

Json encode(const ModelSpec& value, Form form) { return encode<ModelSpec>(value, form); }
Json encode(const ClusterSpec& value, Form form) { return encode<ClusterSpec>(value, form); }
Json encode(const Workload& value, Form form) { return encode<Workload>(value, form); }
Json encode(const Problem& value, Form form) { return encode<Problem>(value, form); }

void decode(const Json& json, const Place& place, ModelSpec& into) {
  decode<ModelSpec>(json, place, into);
}
void decode(const Json& json, const Place& place, ClusterSpec& into) {
  decode<ClusterSpec>(json, place, into);
}
void decode(const Json& json, const Place& place, Workload& into) {
  decode<Workload>(json, place, into);
}
void decode(const Json& json, const Place& place, Problem& into) {
  decode<Problem>(json, place, into);
}

}  // namespace planwright::json_io
