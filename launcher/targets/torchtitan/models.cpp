#include "launcher/targets/torchtitan/models.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

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

const char* folder(Family family) { return family == Family::llama3 ? "llama3" : "qwen3"; }

bool is_plain_block(const BlockSpec& b) {
  return !b.moe && !b.latent && !b.mamba && b.mlp == MlpKind::gated &&
         b.activation == Activation::silu && b.norm == NormKind::rms_norm && !b.qkv_bias &&
         !b.out_bias && !b.mlp_bias && b.sliding_window == 0 && !b.sinks && !b.logit_cap &&
         b.residual == Residual::sequential && b.norm_place == NormPlace::input &&
         (b.rotary_dim == 0 || b.rotary_dim == b.head_dim);
}

bool is_plain_model(const ModelSpec& m) {
  return m.runs.size() == 1 && !m.runs[0].shared && m.positions == Positions::rotary &&
         m.embedding_width == 0 && m.token_types == 0 && !m.embedding_norm && m.final_norm &&
         !m.head_transform && !m.head_bias && !m.logit_cap && !m.encoder &&
         m.tower_parameters == 0 && is_plain_block(m.runs[0].block);
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

}  // namespace

std::optional<Family> family_of(const ModelSpec& model) {
  if (!is_plain_model(model)) return std::nullopt;
  const BlockSpec& block = model.runs[0].block;
  if (block.qk_norm) {
    return block.qk_norm_kind == QkNorm::heads_rms ? std::optional(Family::qwen3) : std::nullopt;
  }
  const bool square = block.heads * block.head_dim == model.hidden;
  return square && !model.tied_embeddings ? std::optional(Family::llama3) : std::nullopt;
}

Flavor flavor_of(const ModelSpec& model) {
  const Family family = family_of(model).value();
  if (const Shipped* found = shipped(model)) return {folder(family), found->flavor, true};
  return {fmt::format("planwright_{}", folder(family)), kPlannedFlavor, false};
}

std::string registry_function(const ModelSpec& model) {
  const Shipped* found = shipped(model);
  return found == nullptr ? "" : found->function;
}

std::string registration(const ModelSpec& model) {
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
