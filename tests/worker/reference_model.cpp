#include "reference_model.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace planwright::worker::testing {
namespace {

class Reference {
 public:
  Reference(const ModelSpec& model, const std::map<std::string, at::Tensor>& weights,
            const Dropout& dropout, std::int64_t batch, std::int64_t seq)
      : model_(model), weights_(weights), dropout_(dropout), batch_(batch), seq_(seq) {}

  at::Tensor logits(const at::Tensor& ids) const {
    at::Tensor x = weight("embedding").index({ids.view({batch_, seq_})});
    if (model_.positions == Positions::learned) x = x + weight("positions").slice(0, 0, seq_);
    x = dropped(x, DropSite::embedding, 0);
    for (std::int64_t layer = 0; layer < model_.layers(); ++layer) x = block(layer, x);
    const std::string head = model_.tied_embeddings ? "embedding" : "head.weight";
    return at::matmul(norm(model_.runs.back().block.norm, "final_norm", x), weight(head).t());
  }

 private:
  at::Tensor block(std::int64_t layer, const at::Tensor& x) const {
    const std::string prefix = "blocks." + std::to_string(layer) + ".";
    const BlockSpec& b = model_.block(layer);
    const at::Tensor n1 = norm(b.norm, prefix + "norm1", x);
    const at::Tensor attended =
        dropped(attention(b, layer, prefix, n1), DropSite::attention_output, layer);
    if (b.residual == Residual::parallel_shared) return x + attended + mlp(b, prefix, n1);
    if (b.residual == Residual::parallel) {
      return x + attended + mlp(b, prefix, norm(b.norm, prefix + "norm2", x));
    }
    const at::Tensor x1 = x + attended;
    return x1 +
           dropped(mlp(b, prefix, norm(b.norm, prefix + "norm2", x1)), DropSite::mlp_output, layer);
  }

  /// x [batch, ...], whose sequences follow each other in storage.
  at::Tensor dropped(const at::Tensor& x, DropSite site, std::int64_t layer) const {
    const DropMask mask = dropout_.mask(site, layer, x.numel() / batch_, 0);
    if (mask.probability == 0) return x;
    const at::Tensor kept = at::ones(x.sizes(), x.options());
    drop(kept, mask, kept);
    return x * kept;
  }

  at::Tensor weight(const std::string& name) const { return weights_.at(name); }

  at::Tensor linear(const std::string& name, bool bias, const at::Tensor& x) const {
    const at::Tensor y = at::matmul(x, weight(name + ".weight").t());
    return bias ? y + weight(name + ".bias") : y;
  }

  /// What an adapter adds, 0 without it.
  at::Tensor lora(const std::string& prefix, LoraTarget target, const at::Tensor& x) const {
    const std::string name = prefix + std::string(word(target));
    if (weights_.count(name + ".lora_A") == 0) return at::zeros({}, x.options());
    const at::Tensor h = at::matmul(x, weight(name + ".lora_A").t());
    return at::matmul(h, weight(name + ".lora_B").t());
  }

  at::Tensor norm(NormKind kind, const std::string& name, const at::Tensor& x) const {
    const at::Tensor centered = kind == NormKind::layer_norm ? x - x.mean(-1, true) : x;
    const at::Tensor deviation = (centered.square().mean(-1, true) + model_.norm_eps).sqrt();
    const at::Tensor scaled = centered / deviation * weight(name + ".weight");
    return kind == NormKind::layer_norm ? scaled + weight(name + ".bias") : scaled;
  }

  at::Tensor activation(Activation kind, const at::Tensor& x) const {
    return kind == Activation::silu ? x * at::sigmoid(x) : at::gelu(x, "tanh");
  }

  /// x [batch, heads, seq, dim]: as in Hugging Face's rotate_half.
  at::Tensor rotated(const at::Tensor& x) const {
    if (model_.positions == Positions::learned) return x;
    const std::int64_t dim = x.size(3);
    const at::Tensor frequency =
        at::pow(model_.rope_theta, at::arange(0, dim, 2, x.options()) / -static_cast<double>(dim));
    const at::Tensor angle = at::outer(at::arange(0, seq_, 1, x.options()), frequency);
    const at::Tensor cos = at::cat({angle.cos(), angle.cos()}, 1);
    const at::Tensor sin = at::cat({angle.sin(), angle.sin()}, 1);
    const auto halves = x.chunk(2, 3);
    return x * cos + at::cat({-halves[1], halves[0]}, 3) * sin;
  }

  at::Tensor attention(const BlockSpec& b, std::int64_t layer, const std::string& prefix,
                       const at::Tensor& x) const {
    using enum LoraTarget;
    const at::Tensor qkv = linear(prefix + "qkv", b.qkv_bias, x) + lora(prefix, qkv_proj, x);
    const std::int64_t d = b.head_dim;
    auto parts = qkv.split_with_sizes({b.heads * d, b.kv_heads * d, b.kv_heads * d}, 2);
    for (const auto& [i, target] : {std::pair{0, q_proj}, {1, k_proj}, {2, v_proj}}) {
      parts[i] = (parts[i] + lora(prefix, target, x)).view({batch_, seq_, -1, d}).transpose(1, 2);
    }
    const std::int64_t sharing = b.heads / b.kv_heads;
    const auto normed = [&](const at::Tensor& heads, const char* name) {
      return b.qk_norm ? norm(NormKind::rms_norm, prefix + name, heads) : heads;
    };
    const at::Tensor q = rotated(normed(parts[0], "q_norm"));
    const at::Tensor k = rotated(normed(parts[1], "k_norm")).repeat_interleave(sharing, 1);
    const at::Tensor v = parts[2].repeat_interleave(sharing, 1);
    const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(double(b.head_dim));
    at::Tensor unseen = at::ones({seq_, seq_}, at::kBool).triu(1);
    if (b.sliding_window > 0) {
      unseen = unseen.logical_or(at::ones({seq_, seq_}, at::kBool).tril(-b.sliding_window));
    }
    const at::Tensor weights =
        scores.masked_fill(unseen, -std::numeric_limits<double>::infinity()).softmax(-1);
    const at::Tensor seen = dropped(weights, DropSite::attention_weights, layer);
    const at::Tensor out = at::matmul(seen, v).transpose(1, 2).reshape({batch_, seq_, -1});
    return linear(prefix + "out", b.out_bias, out) + lora(prefix, o_proj, out);
  }

  at::Tensor mlp(const BlockSpec& b, const std::string& prefix, const at::Tensor& x) const {
    using enum LoraTarget;
    at::Tensor inner;
    if (b.mlp == MlpKind::gated) {
      const at::Tensor both =
          linear(prefix + "gate_up", b.mlp_bias, x) + lora(prefix, gate_up_proj, x);
      const auto parts = both.chunk(2, -1);
      inner = activation(b.activation, parts[0] + lora(prefix, gate_proj, x)) *
              (parts[1] + lora(prefix, up_proj, x));
    } else {
      inner =
          activation(b.activation, linear(prefix + "up", b.mlp_bias, x) + lora(prefix, up_proj, x));
    }
    return linear(prefix + "down", b.mlp_bias, inner) + lora(prefix, down_proj, inner);
  }

  const ModelSpec& model_;
  const std::map<std::string, at::Tensor>& weights_;
  const Dropout& dropout_;
  std::int64_t batch_, seq_;
};

}  // namespace

at::Tensor reference_loss(const ModelSpec& model, const std::map<std::string, at::Tensor>& weights,
                          const MicroBatch& in, const Dropout& dropout) {
  const Reference reference(model, weights, dropout, in.batch, in.ids.numel() / in.batch);
  const at::Tensor logits = reference.logits(in.ids).flatten(0, 1);
  return -logits.log_softmax(1).gather(1, in.targets.unsqueeze(1)).sum();
}

}  // namespace planwright::worker::testing
