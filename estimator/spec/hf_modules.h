#pragma once

#include <array>
#include <string_view>

#include "estimator/spec/words.h"
#include "estimator/spec/workload.h"

/// Which code a model's modules run as: what versions, kernels and arguments change. A target says
/// which it is (TargetTraits::modules); estimator/hf_program, lit_program and torch_program
/// interpret what they know of it.
namespace planwright {

/// How logits become a loss. Sources: transformers models/llama/modeling_llama.py @ v4.45.2,
/// loss/loss_utils.py @ v4.48.1 and v5.23.0.
enum class LossStyle {
  in_model,        ///< to 4.45: logits in fp32, shifted in a copy
  function,        ///< 4.46 to 4.48: the same in a function, whose caller has the narrow logits
  shifted_labels,  ///< since 4.49: labels are shifted, and logits not copied
  narrow,          ///< some families to 4.48: shifted in a copy, of the type that they come in
  by_caller        ///< a script's own kernel, of the logits that the model returns
};
template <>
struct Words<LossStyle> {
  static constexpr std::array<std::string_view, 5> kWords{"in_model", "function", "shifted_labels",
                                                          "narrow", "by_caller"};
};

struct HfModules {
  LossStyle loss = LossStyle::shifted_labels;
  bool fused_norms = false;     ///< Unsloth's or Liger's kernel instead of torch's operators
  bool fused_rotary = false;    ///< in place
  bool complex_rotary = false;  ///< torchtitan's, of llama3: pairs are complex numbers of fp32
  bool fused_swiglu = false;    ///< Liger's
  bool repeats_kv = false;  ///< keys and values are copied for each query head before the kernel
  bool reentrant = true;    ///< the checkpoint: its block is run again as a whole, then backwards
  bool autocast = false;    ///< products are computed in the narrow type whatever the operands' is
  bool fused_qkv = false;   ///< one product, of which queries, keys and values are views: GPT-2
  bool returns_cache = false;  ///< a forward without gradients returns keys and values all the same
  bool python_gelu = false;    ///< gelu_new, out of torch's operators
  bool on_accelerator = true;  ///< attention's kernel has the accelerator's scratch

  DType stream = DType::fp32;    ///< of what goes from block to block
  DType weights = DType::fp32;   ///< as the modules see them; the frozen ones, if there are any
  DType norms = DType::fp32;     ///< weights of norms
  DType adapters = DType::fp32;  ///< as the modules see them
  bool quantised = false;        ///< the frozen matrices of blocks, in 4 bits
  bool keeps_quantised_inputs = false;
  bool adapter_dropout = false;

  // Of litgpt's modules.
  std::int64_t logit_rows = 0;        ///< of each sequence, whose logits are made at once; 0: all
  bool interleaved_qkv = false;       ///< query heads lie beside the key head that they share
  bool quantised_head = false;        ///< where the blocks' matrices are
  bool unpacks_through_half = false;  ///< fp16, whatever is computed in
  bool capped_logits = false;         ///< they go through a tanh

  // Of torchtitan's modules.
  bool held_logits = false;      ///< in fp32, from a forward to the next one's
  bool composed_norms = false;   ///< out of torch's operators, in fp32
  bool weighed_rows = false;     ///< experts' results are weighed before each token's are summed
  bool keeps_exchanged = false;  ///< recomputation of single operators saves what experts exchange
  bool compiled_blocks = false, compiled_loss = false;

  auto operator<=>(const HfModules&) const = default;
};

}  // namespace planwright
