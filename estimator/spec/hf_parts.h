#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/spec/hf_families.h"
#include "estimator/spec/weight_format.h"

/// What readers of several families share.
namespace planwright::hf {

using Keys = std::vector<std::string_view>;
Keys with(Keys keys, const Keys& more);

inline const Spellings kHidden{"hidden_size"};
inline const Spellings kHeads{"num_attention_heads"};
inline const Spellings kLayers{"num_hidden_layers"};
inline const Spellings kPositions{"max_position_embeddings", "max_sequence_length"};

/// Keys that rotary_gated reads.
const Keys& rotary_keys();
/// Activations' spellings, by which function they are.
const std::vector<std::string>& silu_words();
const std::vector<std::string>& gelu_words();       ///< the exact one
const std::vector<std::string>& gelu_tanh_words();  ///< its approximation

/// Of any plain MLP: one that is known, or the word is refused.
Activation activation_of(const HfReader& config, std::string_view key, Activation usual);

void require_divides(const HfReader& config, std::string_view key, std::int64_t divisor,
                     const std::string& of, std::int64_t value);
/// Key/value heads, which divide the heads; as many as they are where no key says so.
std::int64_t kv_heads(const HfReader& config, std::int64_t heads,
                      const Spellings& spellings = {"num_key_value_heads"});
/// `times` what `key` says; it must be a size as well.
std::int64_t multiple(const HfReader& config, std::string_view key, std::int64_t value,
                      std::int64_t times);
std::int64_t layer_count(const HfReader& config, const Spellings& spellings = kLayers);
/// transformers 5 moved rope_theta into rope_parameters.
double rope_theta(const HfReader& config, std::string_view key = "rope_theta");
/// Of `fraction` of a head, which positions turn in pairs; 0 for all of it.
std::int64_t rotary_dim(const HfReader& config, std::string_view key, double usual,
                        std::int64_t head_dim);

/// The keys under which a family's outline stands, and what it does where they are silent.
struct OutlineKeys {
  Spellings hidden = kHidden, heads = kHeads, layers = kLayers, positions = kPositions;
  std::int64_t usual_positions = 0;  ///< 0: they must be said
  std::string_view eps = "layer_norm_eps";
  double usual_eps = 1e-5;
  bool tied = false;
};
/// One run of blocks with plain MLPs, whose width the family says, and with as many key/value heads
/// as heads, which divide the hidden state.
ModelSpec outline(const HfReader& config, const OutlineKeys& keys);

/// What a family that has rotary positions and gated MLPs does where the keys are silent.
struct RotaryUsual {
  NormKind norm = NormKind::rms_norm;
  Spellings eps{"rms_norm_eps"};
  bool tied = false;
  Activation activation = Activation::silu;
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
};
/// One run of blocks that see the whole sequence.
ModelSpec rotary_gated(const HfReader& config, const RotaryUsual& usual = {});

/// How positions are stretched; nullopt if they are not. What cannot be read of it is as usual:
/// no size depends on it.
std::optional<RopeScaling> rope_scaling(const HfReader& config);
/// ModelSpec's `unsized`: keys that are there with another value than the one that does nothing.
std::string unsized(const HfReader& config);
/// ModelSpec's `init_std`, `usual` where nothing is said.
double init_std(const HfReader& config, double usual);
/// ModelSpec's `dropout`.
std::string dropout(const HfReader& config);

/// The model of the object under text_config, whose model_type must be one of `types`.
ModelSpec text_model(const HfReader& config, const std::vector<std::string>& types);
/// What quantization_config says that the checkpoint's weights are; nullopt without one.
std::optional<WeightFormat> checkpoint_format(const HfReader& config);

/// For families whose class takes a fixed number of key/value heads where the key is absent, which
/// is more likely a mistake than a model.
void require_kv_heads(const HfReader& config);

/// The model's first block for every layer, changed by `change`; equal neighbours become runs.
void for_each_layer(ModelSpec& model, const std::function<void(std::int64_t, BlockSpec&)>& change);

/// Which layers attend over a window, as layer_types says it; `windowed` is its word for that.
std::optional<std::vector<bool>> listed_windows(const HfReader& config, std::int64_t layers,
                                                const std::string& windowed = "sliding_attention");
/// The block that a family's reader begins with, for all layers.
inline BlockSpec& block_of(ModelSpec& model) { return model.runs.front().block; }

/// Windows where layer_types says so, or on all layers but every `every`-th.
void set_windows_between(const HfReader& config, ModelSpec& model, std::int64_t every);

/// Gives `windows` of the layers the window under `key`.
void set_windows(const HfReader& config, ModelSpec& model, const std::vector<bool>& windows,
                 std::string_view key = "sliding_window");

}  // namespace planwright::hf
