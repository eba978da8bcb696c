#include "launcher/targets/torchtitan/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

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

/// Of models with experts, as MoeSpec and LatentSpec have them. Source: pytorch/torchtitan
/// torchtitan/models/{deepseek_v3,qwen3}/__init__.py @ v0.2.2.
struct ShippedExperts {
  Family family;
  const char* flavor;
  std::int64_t hidden, layers, dense_layers, heads, kv_heads, vocab;
  MoeSpec moe;
  std::int64_t kv_rank, q_rank;  ///< 0: no latent attention
};

const std::vector<ShippedExperts>& shipped_experts() {
  const auto moe = [](std::int64_t experts, std::int64_t top_k, std::int64_t ffn,
                      std::int64_t shared) {
    return MoeSpec{.experts = experts, .top_k = top_k, .ffn = ffn, .shared_ffn = shared * ffn};
  };
  static const std::vector<ShippedExperts> kAll{
      // family       flavor   hidden layers dense heads kv  vocab   experts            kv_rank
      // q_rank
      {Family::deepseek_v3, "16B", 2048, 27, 1, 16, 16, 102400, moe(64, 6, 1408, 2), 512, 0},
      {Family::deepseek_v3, "236B", 5120, 60, 1, 128, 128, 102400, moe(160, 6, 1536, 2), 512, 1536},
      {Family::deepseek_v3, "671B", 7168, 61, 3, 128, 128, 129280, moe(256, 8, 2048, 1), 512, 1536},
      {Family::qwen3, "30B-A3B", 2048, 48, 0, 32, 4, 151936, moe(128, 8, 768, 0), 0, 0},
      {Family::qwen3, "235B-A22B", 4096, 94, 0, 64, 4, 151936, moe(128, 8, 1536, 0), 0, 0},
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

bool has_sizes(const ModelSpec& m, const Shipped& s) {
  const BlockSpec& b = m.runs[0].block;
  return m.hidden == s.hidden && m.layers() == s.layers && b.heads == s.heads &&
         b.kv_heads == s.kv_heads && b.head_dim == s.head_dim && b.ffn == s.ffn &&
         m.vocab == s.vocab && m.tied_embeddings == s.tied;
}

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
  if (const Shipped* found = shipped(model)) return {folder(family), found->flavor, true};
  return {fmt::format("planwright_{}", folder(family)), kPlannedFlavor, false};
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
      "from torchtitan.protocols.train_spec import register_train_spec\n\n"
      "SIZES = {{\n    \"{2}\": {1}(\n",
      folder(family), arguments, kPlannedFlavor);
  text += fmt::format(
      "        dim={},\n        n_layers={},\n        n_heads={},\n"
      "        n_kv_heads={},\n        vocab_size={},\n        norm_eps={},\n"
      "        rope_theta={},\n",
      model.hidden, model.layers(), block.heads, block.kv_heads, model.vocab, model.norm_eps,
      model.rope_theta);
  text += llama ? llama3_sizes(model, block) : qwen3_sizes(model, block);
  text += fmt::format(
      "    )\n}}\n\nregister_train_spec(\"planwright_{}\", replace(get_train_spec(), "
      "model_args=SIZES))\n",
      folder(family));
  return text;
}

}  // namespace planwright::targets::torchtitan
