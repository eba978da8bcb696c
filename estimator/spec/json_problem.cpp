#include "estimator/spec/json_fields.h"

namespace planwright::json_io {

template <>
struct Fields<MoeSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"experts", &MoeSpec::experts, kPositive},
      Field{"top_k", &MoeSpec::top_k, kPositive},
      Field{"ffn", &MoeSpec::ffn, kPositive},
      Field{"shared_ffn", &MoeSpec::shared_ffn, kNatural},
      Field{"shared_gate", &MoeSpec::shared_gate},
      Field{"router_bias", &MoeSpec::router_bias},
      Field{"expert_bias", &MoeSpec::expert_bias},
      Field{"selection_bias", &MoeSpec::selection_bias},
      // These change no estimate, so they change no problem.
      Field{"score", &MoeSpec::score, kAny, Hashed::no},
      Field{"weights_sum_to_one", &MoeSpec::weights_sum_to_one, kAny, Hashed::no},
      Field{"groups", &MoeSpec::groups, kNatural, Hashed::no},
      Field{"top_groups", &MoeSpec::top_groups, kNatural, Hashed::no},
      Field{"weights_scale", &MoeSpec::weights_scale, kAny, Hashed::no},
  };
};

template <>
struct Fields<LatentSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"kv_rank", &LatentSpec::kv_rank, kPositive},
      Field{"q_rank", &LatentSpec::q_rank, kNatural},
      Field{"nope_dim", &LatentSpec::nope_dim, kPositive},
      Field{"rope_dim", &LatentSpec::rope_dim, kPositive},
      Field{"value_dim", &LatentSpec::value_dim, kPositive},
  };
};

template <>
struct Fields<MambaSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"inner", &MambaSpec::inner, kPositive},
      Field{"state", &MambaSpec::state, kPositive},
      Field{"conv", &MambaSpec::conv, kPositive},
      Field{"dt_rank", &MambaSpec::dt_rank, kPositive},
      Field{"conv_bias", &MambaSpec::conv_bias},
      Field{"proj_bias", &MambaSpec::proj_bias},
      Field{"inner_norms", &MambaSpec::inner_norms},
  };
};

template <>
struct Fields<ScaleGroup> {
  static constexpr auto kFields = std::tuple{
      Field{"rows", &ScaleGroup::rows, kNatural},
      Field{"columns", &ScaleGroup::columns, kNatural},
      Field{"run", &ScaleGroup::run, kNatural},
  };
};

template <>
struct Fields<WeightFormat> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &WeightFormat::name},
      Field{"type", &WeightFormat::type},
      Field{"group", &WeightFormat::group},
      Field{"scale_bits", &WeightFormat::scale_bits, kNatural},
      Field{"zero_bits", &WeightFormat::zero_bits, kNatural},
      Field{"scales_per_scale", &WeightFormat::scales_per_scale, kNatural},
      Field{"column_index_bits", &WeightFormat::column_index_bits, kNatural},
      Field{"sparse_2_4", &WeightFormat::sparse_2_4},
      Field{"kept", &WeightFormat::kept},
  };
};

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
      Field{"qk_norm_kind", &BlockSpec::qk_norm_kind},
      Field{"norm_place", &BlockSpec::norm_place},
      Field{"rotary_dim", &BlockSpec::rotary_dim, kNatural},
      Field{"sinks", &BlockSpec::sinks},
      Field{"logit_cap", &BlockSpec::logit_cap},
      Field{"latent", &BlockSpec::latent},
      Field{"mamba", &BlockSpec::mamba},
      Field{"moe", &BlockSpec::moe},
  };
};

template <>
struct Fields<RopeScaling> {
  static constexpr auto kFields = std::tuple{
      Field{"type", &RopeScaling::type},
      Field{"factor", &RopeScaling::factor},
      Field{"original_positions", &RopeScaling::original_positions, kNatural},
      Field{"low_freq_factor", &RopeScaling::low_freq_factor},
      Field{"high_freq_factor", &RopeScaling::high_freq_factor},
      Field{"beta_fast", &RopeScaling::beta_fast},
      Field{"beta_slow", &RopeScaling::beta_slow},
      Field{"mscale", &RopeScaling::mscale},
      Field{"mscale_all_dim", &RopeScaling::mscale_all_dim},
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
      Field{"shared", &BlockRun::shared},
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
      Field{"rope_scaling", &ModelSpec::rope_scaling, kAny, Hashed::no},  // changes no estimate
      Field{"norm_eps", &ModelSpec::norm_eps},
      Field{"tied_embeddings", &ModelSpec::tied_embeddings},
      Field{"runs", &ModelSpec::runs},
      Field{"lora", &ModelSpec::lora},
      Field{"position_offset", &ModelSpec::position_offset, kNatural},
      Field{"token_types", &ModelSpec::token_types, kNatural},
      Field{"embedding_width", &ModelSpec::embedding_width, kNatural},
      Field{"narrow", &ModelSpec::narrow},
      Field{"embedding_norm", &ModelSpec::embedding_norm},
      Field{"final_norm", &ModelSpec::final_norm},
      Field{"head_transform", &ModelSpec::head_transform},
      Field{"head_bias", &ModelSpec::head_bias},
      Field{"encoder", &ModelSpec::encoder},
      Field{"logit_cap", &ModelSpec::logit_cap},
      Field{"checkpoint", &ModelSpec::checkpoint},
      Field{"uncounted", &ModelSpec::uncounted, kAny, Hashed::no},  // words about the file
      Field{"init_std", &ModelSpec::init_std, kAny, Hashed::no},    // changes no estimate
      Field{"dropout", &ModelSpec::dropout, kAny, Hashed::no},      // words about the file
      Field{"unsized", &ModelSpec::unsized, kAny, Hashed::no},      // nor does this
      Field{"stand_in", &ModelSpec::stand_in},
      Field{"tower_parameters", &ModelSpec::tower_parameters, kNatural},
  };
};

template <>
struct Fields<DeviceSpec> {
  static constexpr auto kFields = std::tuple{
      Field{"name", &DeviceSpec::name}, Field{"kind", &DeviceSpec::kind},
      Field{"memory_bytes", &DeviceSpec::memory, kNatural},
      Field{"memory_stated_bytes", &DeviceSpec::memory_stated, kNatural},
      Field{"fp64_flops_per_s", &DeviceSpec::fp64}, Field{"fp32_flops_per_s", &DeviceSpec::fp32},
      Field{"tf32_flops_per_s", &DeviceSpec::tf32}, Field{"bf16_flops_per_s", &DeviceSpec::bf16},
      Field{"fp16_flops_per_s", &DeviceSpec::fp16}, Field{"fp8_flops_per_s", &DeviceSpec::fp8},
      // Nothing is planned with these yet, so they change no problem.
      Field{"int8_ops_per_s", &DeviceSpec::int8, kAny, Hashed::no},
      Field{"fp4_flops_per_s", &DeviceSpec::fp4, kAny, Hashed::no},
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
      Field{"state", &PrecisionRecipe::state},       Field{"summed", &PrecisionRecipe::summed},
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
struct Fields<Serving> {
  static constexpr auto kFields = std::tuple{
      Field{"weights", &Serving::weights},
      Field{"cache", &Serving::cache},
      Field{"page", &Serving::page, kPositive},
      Field{"prefill", &Serving::prefill, kPositive},
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
      Field{"serving", &Workload::serving},
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
