#include "estimator/serving_bytes.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "estimator/spec/rank_grid.h"

namespace planwright::estimator {
namespace {

constexpr std::int64_t kByteBits = 8;

double real(std::int64_t value) { return static_cast<double>(value); }

std::int64_t whole_bytes(std::int64_t bits) { return (bits + kByteBits - 1) / kByteBits; }

/// Where there are more tensor ranks than key/value heads, each head is held by several.
void copy_heads(ModelSpec& model, int tp) {
  for (BlockRun& run : model.runs) {
    std::int64_t& heads = run.block.kv_heads;
    if (heads > 0 && heads < tp) heads = tp;
  }
}

CacheType arithmetic_cache(DType type) {
  switch (type) {
    case DType::fp32:
    case DType::fp64:
      return CacheType::fp32;
    case DType::fp16:
      return CacheType::fp16;
    case DType::fp8:
    case DType::bf16:
      return CacheType::bf16;
  }
  return CacheType::bf16;
}

CacheType cache_type(const ServingPart& p) {
  return p.serving.cache.value_or(arithmetic_cache(p.storage));
}

/// Bits of one token in one layer's cache on this rank: two heads of head_dim each with their
/// scales, for every key/value head; of latent attention the latent vector and the one rotary key,
/// which every rank holds.
std::int64_t token_bits(const ServingPart& p, const BlockSpec& block) {
  const CacheType type = cache_type(p);
  const BlockSpec share = tensor_share(block, p.part.tp);
  if (block.mamba) return 0;
  if (block.latent) {
    return bits_of(type) * (block.latent->kv_rank + block.latent->rope_dim) + scale_bits_of(type);
  }
  return 2 * share.kv_heads * (bits_of(type) * share.head_dim + scale_bits_of(type));
}

/// A Mamba layer's state of one sequence: [inner, state] in fp32, and the last `conv` inputs of the
/// convolution. Source: huggingface/transformers models/mamba/modeling_mamba.py, MambaCache.
std::int64_t mamba_bytes(const ServingPart& p, const MambaSpec& m) {
  const std::int64_t inner = m.inner / p.part.tp;
  return inner * (m.state * bytes_of(DType::fp32) + m.conv * bytes_of(p.storage));
}

const BlockSpec& block_of(const ServingPart& p, std::int64_t layer) {
  return p.model.block(p.part.first_layer + layer);
}

/// Whether the checkpoint leaves the half of the block that the tensor is in as it is.
bool is_kept(const WeightFormat& format, const std::string& tensor) {
  const bool of_mlp = tensor.find("gate_up") != std::string::npos ||
                      tensor.find(".up") != std::string::npos ||
                      tensor.find("down") != std::string::npos;
  const char* half = of_mlp ? "mlp" : "self_attn";
  return std::find(format.kept.begin(), format.kept.end(), half) != format.kept.end();
}

/// Widest pair of tensors of one half of a block, in elements per token, and what experts make.
std::int64_t half_elements(const ServingPart& p, const BlockSpec& block) {
  const std::int64_t tp = p.part.tp;
  const std::int64_t parts = block.mlp == MlpKind::gated ? 3 : 2;  // up (and gate), act
  std::int64_t mixer = 0, mlp = parts * block.ffn / tp;
  if (block.mamba) {
    mixer = 3 * block.mamba->inner / tp + block.mamba->dt_rank + 2 * block.mamba->state;
  } else if (block.latent) {
    const LatentSpec& l = *block.latent;
    const std::int64_t heads = block.heads / tp;
    mixer = l.q_rank + l.kv_rank + l.rope_dim +
            heads * (2 * (l.nope_dim + l.rope_dim) + 2 * l.value_dim);
  } else {
    const BlockSpec share = tensor_share(block, p.part.tp);
    mixer = (2 * share.heads + 2 * share.kv_heads) * share.head_dim;  // qkv, out
  }
  if (block.moe) {
    const MoeSpec& moe = *block.moe;
    mlp = moe.top_k * (parts * moe.ffn / tp + p.model.hidden) + parts * moe.shared_ffn / tp +
          moe.experts;
  }
  return std::max(mixer, mlp);
}

}  // namespace

const WeightFormat* weight_format_of(const Problem& problem) {
  const Serving& serving = problem.workload.serving;
  if (serving.weights) return &*serving.weights;
  return problem.model.checkpoint ? &*problem.model.checkpoint : nullptr;
}

ServingPart serving_part(const Problem& problem, const Candidate& c, int stage) {
  ServingPart p{.model = problem.model,
                .part = model_part(problem.model, c, rank_at(c, {0, 0, stage})),
                .serving = problem.workload.serving,
                .storage = problem.workload.recipe.storage};
  p.part.etp = c.tp;  // each tensor rank has a part of every expert
  copy_heads(p.model, c.tp);
  if (const WeightFormat* format = weight_format_of(problem)) p.serving.weights = *format;
  return p;
}

Bytes weight_bytes(const ServingPart& p) { return weight_bytes(p, part_tensors(p.model, p.part)); }

Bytes weight_bytes(const ServingPart& p, const std::vector<PartTensor>& tensors) {
  Bytes sum;
  for (const PartTensor& each : tensors) {
    const ParameterTensor& tensor = each.tensor;
    const bool formatted =
        p.serving.weights && tensor.linear && !is_kept(*p.serving.weights, tensor.name);
    sum += formatted ? stored_bytes(*p.serving.weights, tensor.shape[0], tensor.shape[1])
                     : Bytes{tensor.numel() * bytes_of(p.storage)};
  }
  const bool has_tower = p.part.first && p.model.tower_parameters > 0;
  return has_tower ? sum + Bytes{p.model.tower_parameters * bytes_of(p.storage)} : sum;
}

Bytes cache_bytes(const ServingPart& p, std::int64_t tokens) {
  Bytes sum;
  for (std::int64_t layer = 0; layer < p.part.layers; ++layer) {
    const BlockSpec& block = block_of(p, layer);
    if (block.mamba) sum += Bytes{mamba_bytes(p, *block.mamba)};
    const std::int64_t window = block.sliding_window;
    const std::int64_t kept = window > 0 ? std::min(tokens, window) : tokens;
    const std::int64_t page = std::max<std::int64_t>(1, p.serving.page);
    const std::int64_t pages = (kept + page - 1) / page;
    sum += Bytes{whole_bytes(token_bits(p, block) * pages * page)};
  }
  return sum;
}

Bytes cache_bytes_per_token(const ServingPart& p) {
  std::int64_t bits = 0;
  for (std::int64_t layer = 0; layer < p.part.layers; ++layer) {
    bits += token_bits(p, block_of(p, layer));
  }
  return {whole_bytes(bits)};
}

PassBytes pass_bytes(const ServingPart& p, std::int64_t tokens, std::int64_t rows) {
  std::int64_t widest = 0;
  for (std::int64_t layer = 0; layer < p.part.layers; ++layer) {
    widest = std::max(widest, half_elements(p, block_of(p, layer)));
  }
  // The residual stream, a half's normed input and its output.
  const double elements = real(tokens) * real(3 * p.model.hidden + widest);
  PassBytes bytes{.activations = countable_bytes(elements * real(bytes_of(p.storage))),
                  .logits = {}};
  if (p.part.last) {  // and once more in fp32, from which tokens are drawn
    const double each = real(bytes_of(p.storage) + bytes_of(DType::fp32));
    bytes.logits = countable_bytes(real(rows) * real(vocab_share(p.model.vocab, p.part.tp)) * each);
  }
  return bytes;
}

}  // namespace planwright::estimator
