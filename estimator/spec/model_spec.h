#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/lora.h"
#include "estimator/spec/words.h"

namespace planwright {

enum class NormKind { layer_norm, rms_norm };
template <>
struct Words<NormKind> {
  static constexpr std::array<std::string_view, 2> kWords{"layer_norm", "rms_norm"};
};

/// plain: down(act(up(x))). gated: down(act(gate(x)) * up(x)).
enum class MlpKind { plain, gated };
template <>
struct Words<MlpKind> {
  static constexpr std::array<std::string_view, 2> kWords{"plain", "gated"};
};

enum class Activation { gelu_tanh, silu };
template <>
struct Words<Activation> {
  static constexpr std::array<std::string_view, 2> kWords{"gelu_tanh", "silu"};
};

enum class Positions { learned, rotary };
template <>
struct Words<Positions> {
  static constexpr std::array<std::string_view, 2> kWords{"learned", "rotary"};
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

/// One pre-norm transformer block.
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
  bool qk_norm = false;             ///< RMS norms of each query and each key head
  Residual residual = Residual::sequential;

  bool operator==(const BlockSpec&) const = default;
};

/// `count` identical blocks in a row.
struct BlockRun {
  std::int64_t count = 0;
  BlockSpec block;
  bool operator==(const BlockRun&) const = default;
};

/// A decoder-only language model, as far as its size and its work depend on it.
struct ModelSpec {
  std::string name;
  std::string family;  ///< model_type of the config.json it came from
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t max_positions = 0;
  Positions positions = Positions::rotary;
  double rope_theta = 10000.0;
  double norm_eps = 1e-5;
  bool tied_embeddings = false;
  std::vector<BlockRun> runs;
  LoraSpec lora;  ///< with one, what is not of it is frozen

  bool operator==(const ModelSpec&) const = default;

  std::int64_t layers() const;
  /// Block `layer` of [0, layers()).
  const BlockSpec& block(std::int64_t layer) const;
};

/// One weight tensor, in the form in which a runtime with fused projections stores it: query, key
/// and value are one matrix [(heads + 2 kv_heads) head_dim, hidden], gate and up one
/// [2 ffn, hidden]. Matrices are [out, in].
struct ParameterTensor {
  std::string
      name;  ///< "embedding", "blocks.3.qkv.weight", "blocks.3.q_proj.lora_A", "head.weight"
  std::vector<std::int64_t> shape;
  bool trained = true;
  std::int64_t numel() const;
};

/// All tensors in forward order. A tied head has no tensor of its own.
std::vector<ParameterTensor> parameter_tensors(const ModelSpec& model);

struct ParameterCounts {
  std::int64_t total = 0;
  std::int64_t trainable = 0;
  std::int64_t active = 0;  ///< used per token
  bool operator==(const ParameterCounts&) const = default;
};

/// Exact counts: the sum over `parameter_tensors`.
ParameterCounts parameter_counts(const ModelSpec& model);

}  // namespace planwright
