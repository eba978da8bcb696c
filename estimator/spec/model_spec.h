#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/lora.h"
#include "estimator/spec/weight_format.h"
#include "estimator/spec/words.h"

namespace planwright {

/// A LayerNorm has a weight and a bias, or no bias, or neither; an RMSNorm has a weight.
enum class NormKind { layer_norm, rms_norm, layer_norm_without_bias, layer_norm_without_weight };
template <>
struct Words<NormKind> {
  static constexpr std::array<std::string_view, 4> kWords{
      "layer_norm", "rms_norm", "layer_norm_without_bias", "layer_norm_without_weight"};
};

/// Where the norms of a block's halves stand.
enum class NormPlace {
  input,    ///< x + half(norm(x)), the usual pre-norm
  output,   ///< x + norm(half(x)): OLMo 2
  both,     ///< x + norm(half(norm(x))): Gemma 2
  residual  ///< norm(x + half(x)), post-norm: the first transformers, ALBERT
};
template <>
struct Words<NormPlace> {
  static constexpr std::array<std::string_view, 4> kWords{"input", "output", "both", "residual"};
};

/// plain: down(act(up(x))). gated: down(act(gate(x)) * up(x)).
enum class MlpKind { plain, gated };
template <>
struct Words<MlpKind> {
  static constexpr std::array<std::string_view, 2> kWords{"plain", "gated"};
};

enum class Activation { gelu_tanh, silu, gelu, relu, relu_squared };
template <>
struct Words<Activation> {
  static constexpr std::array<std::string_view, 5> kWords{"gelu_tanh", "silu", "gelu", "relu",
                                                          "relu_squared"};
};

/// none: the order of the tokens is known from elsewhere, as from Mamba layers.
enum class Positions { learned, rotary, alibi, none };
template <>
struct Words<Positions> {
  static constexpr std::array<std::string_view, 4> kWords{"learned", "rotary", "alibi", "none"};
};

/// How a block adds its two halves to its input x.
enum class Residual {
  sequential,      ///< x1 = x + attention(norm1(x)), then x1 + mlp(norm2(x1))
  parallel,        ///< x + attention(norm1(x)) + mlp(norm2(x))
  parallel_shared  ///< x + attention(norm1(x)) + mlp(norm1(x))
};
template <>
struct Words<Residual> {
  static constexpr std::array<std::string_view, 3> kWords{"sequential", "parallel",
                                                          "parallel_shared"};
};

/// What a norm of queries and keys goes over, and with which weights.
enum class QkNorm {
  heads_rms,        ///< RMSNorm of every head, one weight [head_dim] for all
  width_rms,        ///< RMSNorm of all heads together, a weight [heads head_dim]: OLMo 2
  heads_layer,      ///< LayerNorm of every head, a weight and a bias [head_dim] for all: Phi
  each_head_layer,  ///< LayerNorm of every head, a weight [heads, head_dim], no bias: Command R+
  plain             ///< without weights: Llama 4
};
template <>
struct Words<QkNorm> {
  static constexpr std::array<std::string_view, 5> kWords{"heads_rms", "width_rms", "heads_layer",
                                                          "each_head_layer", "plain"};
};

/// What a router makes of its logits before it chooses.
enum class RouterScore { softmax, sigmoid };
template <>
struct Words<RouterScore> {
  static constexpr std::array<std::string_view, 2> kWords{"softmax", "sigmoid"};
};

/// A router and experts in the place of a block's MLP; each expert is of the block's kind of MLP.
struct MoeSpec {
  std::int64_t experts = 0;
  std::int64_t top_k = 0;       ///< experts that one token is sent to
  std::int64_t ffn = 0;         ///< width of one
  std::int64_t shared_ffn = 0;  ///< width of the experts that every token goes through; 0: none
  bool shared_gate = false;     ///< those are weighted by a gate [1, hidden]: Qwen2-MoE
  bool router_bias = false;
  bool expert_bias = false;
  bool selection_bias = false;  ///< one value per expert, for the choice only: DeepSeek-V3

  // What changes no size and no work: for whoever has to be told.
  RouterScore score = RouterScore::softmax;
  bool weights_sum_to_one = true;  ///< those of the chosen experts
  std::int64_t groups = 0;         ///< of experts, of which a token's are in the best top_groups
  std::int64_t top_groups = 0;
  double weights_scale = 1.0;  ///< what they are multiplied by at last
  bool operator==(const MoeSpec&) const = default;
};

/// Multi-head latent attention: keys and values come from one latent vector per token, which with
/// the shared rotary part is all that a cache holds. Source: DeepSeek-V2, arXiv:2405.04434,
/// section 2.1.
struct LatentSpec {
  std::int64_t kv_rank = 0;
  std::int64_t q_rank = 0;     ///< 0: queries come from the hidden state directly
  std::int64_t nope_dim = 0;   ///< of a query or key head, what is not rotated
  std::int64_t rope_dim = 0;   ///< of a query head, and of the one key that all heads share
  std::int64_t value_dim = 0;  ///< of a value head
  bool operator==(const LatentSpec&) const = default;
};

/// A Mamba mixer in the place of attention. Source: Gu and Dao (2023), arXiv:2312.00752, section
/// 3.4; names as there: D is `inner`, N `state`, R `dt_rank`.
struct MambaSpec {
  std::int64_t inner = 0;
  std::int64_t state = 0;
  std::int64_t conv = 0;  ///< taps
  std::int64_t dt_rank = 0;
  bool conv_bias = false;
  bool proj_bias = false;
  bool inner_norms = false;  ///< RMSNorms of dt, B and C: Jamba
  bool operator==(const MambaSpec&) const = default;
};

/// One transformer block. What stands after `residual` is beyond what the built-in runtime runs.
struct BlockSpec {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  std::int64_t ffn = 0;
  MlpKind mlp = MlpKind::plain;
  Activation activation = Activation::gelu_tanh;
  NormKind norm = NormKind::layer_norm;
  bool qkv_bias = false;
  bool out_bias = false;
  bool mlp_bias = false;
  std::int64_t sliding_window = 0;  ///< tokens, a query's own included; 0: the whole sequence
  bool qk_norm = false;             ///< queries and keys are normed
  Residual residual = Residual::sequential;

  QkNorm qk_norm_kind = QkNorm::heads_rms;
  NormPlace norm_place = NormPlace::input;
  std::int64_t rotary_dim = 0;  ///< elements of a head that positions turn; 0: all
  bool sinks = false;           ///< a learnt logit per head that takes weight: gpt-oss
  bool logit_cap = false;       ///< scores go through a tanh: Gemma 2
  std::optional<LatentSpec> latent{};
  std::optional<MambaSpec> mamba{};  ///< heads, kv_heads and head_dim are 0 then
  std::optional<MoeSpec> moe{};      ///< ffn is 0 then

  bool operator==(const BlockSpec&) const = default;
};

/// Which embeddings are narrower than the hidden state.
enum class Narrow {
  tokens,     ///< the tokens', and the head; a matrix without bias on either side: OPT-350m
  everything  ///< tokens', positions' and types', widened by a matrix with a bias: ALBERT
};
template <>
struct Words<Narrow> {
  static constexpr std::array<std::string_view, 2> kWords{"tokens", "everything"};
};

/// `count` identical blocks in a row.
struct BlockRun {
  std::int64_t count = 0;
  BlockSpec block;
  /// They are one block, whose tensors exist once, run `count` times: ALBERT.
  bool shared = false;
  bool operator==(const BlockRun&) const = default;
};

/// How rotary positions are stretched over more tokens than a model was first trained with. It
/// changes no size and no work. Names and defaults as in huggingface/transformers
/// src/transformers/modeling_rope_utils.py @ v4.57.0; `type` is the configuration's own word.
struct RopeScaling {
  std::string type;
  double factor = 1.0;
  std::int64_t original_positions = 0;                   ///< 0: not said
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  ///< llama3
  double beta_fast = 32.0, beta_slow = 1.0;              ///< yarn, and what follows
  double mscale = 1.0, mscale_all_dim = 0.0;
  bool operator==(const RopeScaling&) const = default;
};

/// A language model, as far as its size and its work depend on it, and what else a framework is
/// told that makes it from words.
struct ModelSpec {
  std::string name;
  std::string family;  ///< model_type of the config.json it came from
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  Positions positions = Positions::rotary;
  double rope_theta = 10000.0;
  std::optional<RopeScaling> rope_scaling{};
  double norm_eps = 1e-5;
  bool tied_embeddings = false;
  std::vector<BlockRun> runs;
  LoraSpec lora;  ///< with one, what is not of it is frozen

  // Beyond what the built-in runtime runs.
  std::int64_t position_offset = 0;  ///< rows of learned positions beside max_positions: OPT has 2
  std::int64_t token_types = 0;      ///< rows of an embedding that is added to the tokens': ALBERT
  std::int64_t embedding_width = 0;  ///< of the embedding and the head; 0: hidden
  Narrow narrow = Narrow::tokens;    ///< with such a width
  bool embedding_norm = false;       ///< a LayerNorm of what is embedded: BLOOM, ALBERT
  bool final_norm = true;
  bool head_transform = false;  ///< a dense layer and a LayerNorm before the head: ALBERT
  bool head_bias = false;
  bool logit_cap = false;  ///< logits go through a tanh: Gemma 2
  bool encoder = false;    ///< every token sees every other, and none follows: ALBERT
  /// What its checkpoint stores the linear layers as, where that is not the arithmetic's type.
  std::optional<WeightFormat> checkpoint{};
  std::string
      uncounted{};  ///< keys of its configuration whose parts are not in here: an image tower
  double init_std = 0.02;  ///< of the normal distribution that its weights are drawn from
  /// Keys of its configuration, with their values, that zero what it computes at random: an
  /// estimate has them of the workload.
  std::string dropout{};
  /// Keys of its configuration, with their values, that change what it computes, and are in no
  /// other field because no size depends on them: multipliers, layers without positions.
  std::string unsized{};
  bool stand_in = false;  ///< of the model that is trained nothing is known; this is one like it
  std::int64_t tower_parameters = 0;  ///< of the image tower and its projector beside the decoder

  bool operator==(const ModelSpec&) const = default;

  std::int64_t layers() const;
  /// Block `layer` of [0, layers()).
  const BlockSpec& block(std::int64_t layer) const;
  template <class Condition>
  bool any_block(Condition condition) const {
    return std::any_of(runs.begin(), runs.end(),
                       [&](const BlockRun& run) { return condition(run.block); });
  }
  bool has_experts() const {
    return any_block([](const BlockSpec& block) { return block.moe.has_value(); });
  }
};

/// One weight tensor, in the form in which a runtime with fused projections stores it: query, key
/// and value are one matrix [(heads + 2 kv_heads) head_dim, hidden], gate and up one
/// [2 ffn, hidden]. Matrices are [out, in].
struct ParameterTensor {
  std::string
      name;  ///< "embedding", "blocks.3.qkv.weight", "blocks.3.q_proj.lora_A", "head.weight"
  std::vector<std::int64_t> shape;
  bool trained = true;
  bool linear = false;              ///< a block's matrix, not of the router
  std::int64_t uses = 1;            ///< blocks that it is in: more than one where they share it
  std::int64_t experts = 1;         ///< parts of equal size that it has,
  std::int64_t active_experts = 1;  ///< and those of them that a token uses
  std::int64_t numel() const;
};

/// All tensors in forward order. A tied head has no tensor of its own.
std::vector<ParameterTensor> parameter_tensors(const ModelSpec& model);

struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t trainable = 0;
  std::int64_t active = 0;  ///< all but the experts that a token is not sent to
  bool operator==(const ParameterCounts&) const = default;
};

/// Exact counts: the sum over `parameter_tensors`.
ParameterCounts parameter_counts(const ModelSpec& model);

}  // namespace planwright
