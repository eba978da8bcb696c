#include "launcher/targets/torchtitan/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "launcher/targets/shared/untold.h"

namespace planwright::targets::torchtitan {
namespace {

constexpr const char* kPlannedFlavor = "planned";

struct Shipped {
  Family family;
  const char* flavor;
  const char* function;  ///< of 0.3's registry; empty: it has none
  std::int64_t hidden, layers, heads, kv_heads, head_dim, ffn, vocab;
  bool tied;
};

/// Source: pytorch/torchtitan torchtitan/models/{llama3,qwen3}/__init__.py @ v0.2.2, and
/// config_registry.py beside them @ 0.3.0. llama3's width
/// of the MLP follows from its multiplier and multiple: model/model.py, FeedForward.
constexpr std::array kShipped{
    //      family          flavor, function, hidden layers heads kv head_dim ffn   vocab   tied
    Shipped{Family::llama3, "8B", "llama3_8b", 4096, 32, 32, 8, 128, 14336, 128256, false},
    Shipped{Family::llama3, "70B", "llama3_70b", 8192, 80, 64, 8, 128, 28672, 128256, false},
    Shipped{Family::llama3, "405B", "llama3_405b", 16384, 126, 128, 8, 128, 53248, 128256, false},
    Shipped{Family::qwen3, "0.6B", "qwen3_0_6b", 1024, 28, 16, 8, 128, 3072, 151936, true},
    Shipped{Family::qwen3, "1.7B", "qwen3_1_7b", 2048, 28, 16, 8, 128, 6144, 151936, true},
    Shipped{Family::qwen3, "4B", "", 2560, 36, 32, 8, 128, 9728, 151936, true},
    Shipped{Family::qwen3, "8B", "", 4096, 36, 32, 8, 128, 12288, 151936, false},
    Shipped{Family::qwen3, "14B", "qwen3_14b", 5120, 40, 40, 8, 128, 17408, 151936, false},
    Shipped{Family::qwen3, "32B", "qwen3_32b", 5120, 64, 64, 8, 128, 25600, 151936, false},
};

/// What a flavor is given, or is silent about and its class has.
struct Numbers {
  double rope_theta, norm_eps;
  std::optional<RopeScaling> scaling{};
};

/// Source: pytorch/torchtitan torchtitan/models/{llama3,qwen3,deepseek_v3}/model/args.py and the
/// flavors beside them @ v0.2.2. DeepSeek's one mscale is the one of all dimensions.
RopeScaling llama3_scaling() {
  return {.type = "llama3",
          .factor = 8.0,
          .original_positions = 8192,
          .low_freq_factor = 1.0,
          .high_freq_factor = 4.0};
}
Numbers llama3_numbers() { return {5e5, 1e-5, llama3_scaling()}; }
Numbers qwen3_numbers(double theta = 1e6) { return {theta, 1e-6}; }
Numbers deepseek_numbers(double mscale = 1.0) {
  return {1e4, 1e-5,
          RopeScaling{.type = "yarn",
                      .factor = 40.0,
                      .original_positions = 4096,
                      .beta_fast = 32.0,
                      .beta_slow = 1.0,
                      .mscale = mscale,
                      .mscale_all_dim = mscale}};
}

/// Of models with experts, as MoeSpec and LatentSpec have them. Source: pytorch/torchtitan
/// torchtitan/models/{deepseek_v3,qwen3}/__init__.py @ v0.2.2.
struct ShippedExperts {
  Family family;
  const char* flavor;
  std::int64_t hidden, layers, dense_layers, heads, kv_heads, vocab;
  MoeSpec moe;
  std::int64_t kv_rank, q_rank;  ///< 0: no latent attention
  Numbers numbers;
};

const std::vector<ShippedExperts>& shipped_experts() {
  const auto moe = [](std::int64_t experts, std::int64_t top_k, std::int64_t ffn,
                      std::int64_t shared, bool sum_to_one) {
    return MoeSpec{.experts = experts,
                   .top_k = top_k,
                   .ffn = ffn,
                   .shared_ffn = shared * ffn,
                   .weights_sum_to_one = sum_to_one};
  };
  const auto grouped = [](MoeSpec of, RouterScore score, std::int64_t groups, double scale) {
    of.score = score;
    of.groups = 8;
    of.top_groups = groups;
    of.weights_scale = scale;
    return of;
  };
  static const std::vector<ShippedExperts> kAll{
      // family       flavor   hidden layers dense heads kv  vocab   experts            kv_rank
      // q_rank
      {Family::deepseek_v3, "16B", 2048, 27, 1, 16, 16, 102400, moe(64, 6, 1408, 2, false), 512, 0,
       deepseek_numbers(0.70)},
      {Family::deepseek_v3, "236B", 5120, 60, 1, 128, 128, 102400,
       grouped(moe(160, 6, 1536, 2, false), RouterScore::softmax, 3, 16.0), 512, 1536,
       deepseek_numbers()},
      {Family::deepseek_v3, "671B", 7168, 61, 3, 128, 128, 129280,
       grouped(moe(256, 8, 2048, 1, true), RouterScore::sigmoid, 4, 2.5), 512, 1536,
       deepseek_numbers()},
      {Family::qwen3, "30B-A3B", 2048, 48, 0, 32, 4, 151936, moe(128, 8, 768, 0, true), 0, 0,
       qwen3_numbers()},
      {Family::qwen3, "235B-A22B", 4096, 94, 0, 64, 4, 151936, moe(128, 8, 1536, 0, true), 0, 0,
       qwen3_numbers(5e6)},
  };
  return kAll;
}

const char* folder(Family family) {
  switch (family) {
    case Family::llama3:
      return "llama3";
    case Family::qwen3:
      return "qwen3";
    case Family::deepseek_v3:
      return "deepseek_v3";
  }
  return "";
}

bool is_plain_block(const BlockSpec& b) {
  return !b.mamba && b.mlp == MlpKind::gated && b.activation == Activation::silu &&
         b.norm == NormKind::rms_norm && !b.qkv_bias && !b.out_bias && !b.mlp_bias &&
         b.sliding_window == 0 && !b.sinks && !b.logit_cap && b.residual == Residual::sequential &&
         b.norm_place == NormPlace::input &&
         (b.latent || b.rotary_dim == 0 || b.rotary_dim == b.head_dim);
}

bool is_plain_model(const ModelSpec& m) {
  const auto plain = [](const BlockRun& run) { return !run.shared && is_plain_block(run.block); };
  return std::all_of(m.runs.begin(), m.runs.end(), plain) && m.positions == Positions::rotary &&
         m.embedding_width == 0 && m.token_types == 0 && !m.embedding_norm && m.final_norm &&
         !m.head_transform && !m.head_bias && !m.logit_cap && !m.encoder && m.tower_parameters == 0;
}

bool has_routing(const MoeSpec& m, const MoeSpec& s) {
  return m.experts == s.experts && m.top_k == s.top_k && m.ffn == s.ffn &&
         m.shared_ffn == s.shared_ffn && !m.shared_gate && !m.router_bias && !m.expert_bias;
}

bool has_experts(const ModelSpec& m, const ShippedExperts& s) {
  const std::size_t runs = s.dense_layers > 0 ? 2 : 1;
  const BlockSpec& b = m.runs.back().block;
  if (m.runs.size() != runs || !b.moe || !has_routing(*b.moe, s.moe)) return false;
  const bool latent = s.kv_rank > 0;
  const bool attends =
      latent ? b.latent && b.latent->kv_rank == s.kv_rank && b.latent->q_rank == s.q_rank
             : !b.latent && b.qk_norm && b.qk_norm_kind == QkNorm::heads_rms;
  return attends && m.hidden == s.hidden && m.layers() == s.layers && b.heads == s.heads &&
         b.kv_heads == s.kv_heads && !m.tied_embeddings &&
         (runs == 1 || m.runs.front().count == s.dense_layers);
}

const ShippedExperts* shipped_with_experts(const ModelSpec& m) {
  if (!is_plain_model(m) || m.runs.empty()) return nullptr;
  const auto& all = shipped_experts();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& each) { return has_experts(m, each); });
  return found == all.end() ? nullptr : &*found;
}

/// In the configuration's words, what the model has otherwise.
std::vector<std::string> different(const ModelSpec& m, const Numbers& numbers) {
  std::vector<std::string> all;
  if (m.rope_theta != numbers.rope_theta) all.push_back(fmt::format("rope_theta {}", m.rope_theta));
  if (m.norm_eps != numbers.norm_eps) all.push_back(fmt::format("rms_norm_eps {}", m.norm_eps));
  if (m.rope_scaling != numbers.scaling) {
    all.push_back(m.rope_scaling ? scaling_text(m) : "that it has no rope_scaling");
  }
  return all;
}

Numbers numbers_of(Family family) {
  return family == Family::qwen3 ? qwen3_numbers() : llama3_numbers();
}

bool has_router(const MoeSpec& m, const MoeSpec& s) {
  return m.score == s.score && m.weights_sum_to_one == s.weights_sum_to_one &&
         m.groups == s.groups && m.top_groups == s.top_groups && m.weights_scale == s.weights_scale;
}

bool has_sizes(const ModelSpec& m, const Shipped& s) {
  const BlockSpec& b = m.runs[0].block;
  return m.hidden == s.hidden && m.layers() == s.layers && b.heads == s.heads &&
         b.kv_heads == s.kv_heads && b.head_dim == s.head_dim && b.ffn == s.ffn &&
         m.vocab == s.vocab && m.tied_embeddings == s.tied;
}

/// The one with its sizes, whatever its numbers.
const Shipped* shipped(const ModelSpec& model) {
  const auto found = std::find_if(kShipped.begin(), kShipped.end(), [&](const Shipped& each) {
    return each.family == family_of(model) && has_sizes(model, each);
  });
  return found == kShipped.end() ? nullptr : &*found;
}

/// llama3 rounds int(multiplier x int(8/3 hidden)) up to a multiple of multiple_of: with that the
/// width itself, and a multiplier that stays below it, the result is the width.
std::string llama3_sizes(const ModelSpec& m, const BlockSpec& b) {
  const double usual = 8.0 / 3.0 * static_cast<double>(m.hidden);
  return fmt::format("        multiple_of={},\n        ffn_dim_multiplier={},\n", b.ffn,
                     0.5 * static_cast<double>(b.ffn) / usual);
}

bool is_llama3_scaled(const ModelSpec& m) {
  return m.rope_scaling && m.rope_scaling->type == llama3_scaling().type;
}

/// llama3 stretches always; by a factor of 1 nothing changes.
std::string llama3_scaling_words(const ModelSpec& m) {
  const RopeScaling s = is_llama3_scaled(m) ? *m.rope_scaling : RopeScaling{};
  const std::int64_t original =
      s.original_positions > 0 ? s.original_positions : llama3_scaling().original_positions;
  return fmt::format(
      "        rope_scaling_args=RoPEScalingArgs(\n            scaling_factor={},\n"
      "            low_freq_factor={},\n            high_freq_factor={},\n"
      "            original_max_position_embeddings={},\n        ),\n",
      s.factor, s.low_freq_factor, s.high_freq_factor, original);
}

std::string qwen3_sizes(const ModelSpec& m, const BlockSpec& b) {
  return fmt::format(
      "        head_dim={},\n        hidden_dim={},\n        qk_norm=True,\n"
      "        enable_weight_tying={},\n",
      b.head_dim, b.ffn, m.tied_embeddings ? "True" : "False");
}

/// With another vocabulary.
std::string registration_of(const ShippedExperts& shipped, std::int64_t vocab) {
  return fmt::format(
      "from dataclasses import replace\n\n"
      "from torchtitan.models.{0} import get_train_spec\n"
      "from torchtitan.protocols.train_spec import register_train_spec\n\n"
      "SIZES = {{\"{1}\": replace(get_train_spec().model_args[\"{2}\"], vocab_size={3})}}\n\n"
      "register_train_spec(\"planwright_{0}\", replace(get_train_spec(), model_args=SIZES))\n",
      folder(shipped.family), kPlannedFlavor, shipped.flavor, vocab);
}

}  // namespace

std::optional<Family> family_of(const ModelSpec& model) {
  if (const ShippedExperts* found = shipped_with_experts(model)) return found->family;
  if (!is_plain_model(model) || model.runs.size() != 1) return std::nullopt;
  const BlockSpec& block = model.runs[0].block;
  if (block.moe || block.latent) return std::nullopt;
  if (block.qk_norm) {
    return block.qk_norm_kind == QkNorm::heads_rms ? std::optional(Family::qwen3) : std::nullopt;
  }
  const bool square = block.heads * block.head_dim == model.hidden;
  return square && !model.tied_embeddings ? std::optional(Family::llama3) : std::nullopt;
}

Flavor flavor_of(const ModelSpec& model) {
  if (const ShippedExperts* found = shipped_with_experts(model)) {
    if (model.vocab == found->vocab) return {folder(found->family), found->flavor, true};
    return {fmt::format("planwright_{}", folder(found->family)), kPlannedFlavor, false};
  }
  const Family family = family_of(model).value();
  if (const Shipped* found = shipped(model);
      found != nullptr && different(model, numbers_of(family)).empty())
    return {folder(family), found->flavor, true};
  return {fmt::format("planwright_{}", folder(family)), kPlannedFlavor, false};
}

std::string model_folder(const ModelSpec& model) { return folder(family_of(model).value()); }

std::vector<std::string> untold(const ModelSpec& model, bool registered) {
  if (const ShippedExperts* found = shipped_with_experts(model)) {
    std::vector<std::string> all = different(model, found->numbers);
    const MoeSpec& moe = *model.runs.back().block.moe;
    if (!has_router(moe, found->moe)) all.push_back(router_text(moe));
    return all;
  }
  const Family family = family_of(model).value();
  if (!registered) return different(model, numbers_of(family));
  const bool said = !model.rope_scaling || (family == Family::llama3 && is_llama3_scaled(model));
  return said ? std::vector<std::string>{} : std::vector{scaling_text(model)};
}

std::string registry_function(const ModelSpec& model) {
  if (shipped_with_experts(model) != nullptr) return "";
  const Shipped* found = shipped(model);
  return found == nullptr ? "" : found->function;
}

std::string registration(const ModelSpec& model) {
  if (const ShippedExperts* found = shipped_with_experts(model)) {
    return registration_of(*found, model.vocab);
  }
  const Family family = family_of(model).value();
  const bool llama = family == Family::llama3;
  const char* const arguments = llama ? "TransformerModelArgs" : "Qwen3ModelArgs";
  const BlockSpec& block = model.runs[0].block;
  std::string text = fmt::format(
      "from dataclasses import replace\n\n"
      "from torchtitan.models.{0} import {1}, get_train_spec\n"
      "{3}from torchtitan.protocols.train_spec import register_train_spec\n\n"
      "SIZES = {{\n    \"{2}\": {1}(\n",
      folder(family), arguments, kPlannedFlavor,
      llama ? "from torchtitan.models.llama3.model.args import RoPEScalingArgs\n" : "");
  text += fmt::format(
      "        dim={},\n        n_layers={},\n        n_heads={},\n"
      "        n_kv_heads={},\n        vocab_size={},\n        norm_eps={},\n"
      "        rope_theta={},\n",
      model.hidden, model.layers(), block.heads, block.kv_heads, model.vocab, model.norm_eps,
      model.rope_theta);
  text +=
      llama ? llama3_sizes(model, block) + llama3_scaling_words(model) : qwen3_sizes(model, block);
  text += fmt::format(
      "    )\n}}\n\nregister_train_spec(\"planwright_{}\", replace(get_train_spec(), "
      "model_args=SIZES))\n",
      folder(family));
  return text;
}

}  // namespace planwright::targets::torchtitan
