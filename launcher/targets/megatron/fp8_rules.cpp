#include "launcher/targets/megatron/fp8_rules.h"

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "launcher/targets/megatron/rules.h"

namespace planwright::targets::megatron {
namespace {

constexpr const char* kSupport =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/quantization.py @ v2.11";
constexpr const char* kSizes =
    "NVIDIA/TransformerEngine transformer_engine/pytorch/utils.py, assert_dim_for_fp8_exec, and "
    "tensor/mxfp8_tensor.py @ v2.11; NVIDIA/Megatron-LM megatron/core/fp8_utils.py @ core_v0.14.0";
constexpr const char* kArguments =
    "NVIDIA/Megatron-LM megatron/training/arguments.py @ core_v0.14.0 to 0.19.0";
constexpr const char* kConfig =
    "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py @ core_v0.14.0 to 0.19.0";

bool is_fp8(const Problem& p) { return p.workload.precision == Precision::fp8; }

bool has_recipe(const Candidate& c, Fp8Recipe recipe) { return te_modules(c).fp8 == recipe; }

std::int64_t multiple(const Candidate& c) { return has_recipe(c, Fp8Recipe::mxfp8) ? 32 : 16; }

/// Widths of a rank's products, whether it has them or not.
std::vector<std::int64_t> widths_of(const ModelSpec& model, const BlockSpec& b,
                                    const Candidate& c) {
  std::vector<std::int64_t> widths{model.hidden};
  if (b.latent) {
    const LatentSpec& l = *b.latent;
    const std::int64_t heads = b.heads / c.tp;
    widths.insert(widths.end(),
                  {l.q_rank, l.kv_rank, l.kv_rank + l.rope_dim, heads * (l.nope_dim + l.rope_dim),
                   heads * (l.nope_dim + l.value_dim), heads * l.value_dim});
  } else {
    widths.push_back(b.heads * b.head_dim / c.tp);
    widths.push_back((b.heads + 2 * b.kv_heads) * b.head_dim / c.tp);
  }
  if (!b.moe) {
    widths.push_back(b.ffn / c.tp);
  } else {
    widths.push_back(b.moe->ffn / c.etp);
    widths.push_back(b.moe->shared_ffn / c.tp);
  }
  return widths;
}

bool fits_widths(const Problem& p, const Candidate& c) {
  return !p.model.any_block([&](const BlockSpec& block) {
    const auto widths = widths_of(p.model, block, c);
    return std::any_of(widths.begin(), widths.end(),
                       [&](std::int64_t width) { return width % multiple(c) != 0; });
  });
}

bool fits_tokens(const Problem& p, const Candidate& c) {
  const std::int64_t ranks = std::int64_t{c.cp} * (c.sp ? c.tp : 1);
  return c.micro_batch * p.workload.seq / ranks % multiple(c) == 0;
}

bool recomputes(const Candidate& c, std::initializer_list<std::string_view> modules) {
  return std::any_of(modules.begin(), modules.end(), [&](std::string_view module) {
    const auto& all = c.recompute.modules;
    return std::find(all.begin(), all.end(), module) != all.end();
  });
}

std::vector<Rule> device_rules() {
  return {
      {"fp8_on_device",
       [](const Problem& p, const Candidate&) {
         const DeviceSpec& device = p.cluster.device;
         return is_fp8(p) && device.bf16 && !device.fp8;
       },
       "{device} has no products in 8 bits, which precision {precision} asks for: Transformer "
       "Engine runs them from compute capability 8.9 on",
       "use --precision bf16, or a device of Ada, Hopper or Blackwell", kSupport},
      // Products of 4 bits came with the same generation as those of blocks of 32.
      {"mxfp8_on_device",
       [](const Problem& p, const Candidate& c) {
         const DeviceSpec& device = p.cluster.device;
         return is_fp8(p) && device.fp8 && !device.fp4 && has_recipe(c, Fp8Recipe::mxfp8);
       },
       "{device} has no products of blocks of 32 in 8 bits: Transformer Engine runs fp8_recipe "
       "mxfp8 from compute capability 10.0 on",
       "use knob fp8_recipe=tensorwise, delayed or blockwise, or a device of Blackwell", kSupport},
  };
}

std::vector<Rule> size_rules() {
  return {
      {"fp8_widths",
       [](const Problem& p, const Candidate& c) { return is_fp8(p) && !fits_widths(p, c); },
       "products in 8 bits take widths that are multiples of 16, with fp8_recipe mxfp8 of 32: "
       "those of a rank at tp {tp} and etp {etp} are not",
       "use a smaller --tp, or --precision bf16", kSizes},
      {"fp8_tokens",
       [](const Problem& p, const Candidate& c) { return is_fp8(p) && !fits_tokens(p, c); },
       "products in 8 bits take multiples of 16 tokens, with fp8_recipe mxfp8 of 32: a rank's "
       "part of micro-batch {micro_batch} x seq {seq} is none",
       "use a --seq that is a multiple of 32 x tp x cp, or --precision bf16", kSizes},
  };
}

std::vector<Rule> argument_rules() {
  return {
      {"fp8_knobs_of_fp8",
       [](const Problem& p, const Candidate& c) {
         const bool plain = has_recipe(c, Fp8Recipe::delayed) && !te_modules(c).fp8_weights;
         return !is_fp8(p) && !plain;
       },
       "fp8_recipe and fp8_param_gather are of products in 8 bits, and precision {precision} has "
       "none",
       "use --precision fp8, or leave the knobs out", kConfig},
      {"fp8_weights_need_shards",
       [](const Problem&, const Candidate& c) { return te_modules(c).fp8_weights && c.zero != 1; },
       "Megatron-LM keeps weights in 8 bits with its distributed optimizer only: zero {zero}",
       "use --zero 1, or leave the knob fp8_param_gather out", kArguments},
      {"fp8_weights_beside_offload",
       [](const Problem&, const Candidate& c) {
         return te_modules(c).fp8_weights && c.offload.optimizer &&
                !has_recipe(c, Fp8Recipe::delayed);
       },
       "Megatron-LM offloads the optimizer of weights in 8 bits with fp8_recipe delayed only",
       "use knob fp8_recipe=delayed, leave fp8_param_gather out, or --offload none", kArguments},
      {"delayed_scales_once",
       [](const Problem& p, const Candidate& c) {
         return is_fp8(p) && has_recipe(c, Fp8Recipe::delayed) &&
                recomputes(c, {"layernorm", "moe_act"});
       },
       "recompute {recompute} brings a product's input to 8 bits twice, which fp8_recipe delayed "
       "cannot",
       "use knob fp8_recipe=tensorwise, blockwise or mxfp8, or recompute core_attn or mlp",
       kConfig},
  };
}

}  // namespace

std::vector<Rule> fp8_rules() {
  std::vector<Rule> all = device_rules();
  for (const auto& group : {size_rules(), argument_rules()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace planwright::targets::megatron
