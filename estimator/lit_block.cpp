#include "estimator/lit_block.h"

#include <algorithm>
#include <utility>

namespace planwright::estimator {

using namespace tape;

/// Block.forward.
Var LitBlock::forward(Var x) const {
  const bool norms_outputs = b_.norm_place == NormPlace::both;
  Var normed = norm(x);
  Var attended = attention(normed);
  if (norms_outputs) attended = norm(std::move(attended));
  if (b_.residual == Residual::sequential) {
    x = add(graph_, attended, x);
    normed = norm(x);
  } else {
    if (b_.residual == Residual::parallel) normed = norm(x);
    x = add(graph_, attended, x);
  }
  Var inner = mlp(normed);
  if (norms_outputs) inner = norm(std::move(inner));
  return add(graph_, inner, x);
}

Var LitBlock::norm(Var x) const {
  if (b_.norm == NormKind::rms_norm) return rms_norm(std::move(x));
  if (m_.autocast) x = to(graph_, x, DType::fp32);  // torch's list of what runs in fp32
  return layer_norm(graph_, x, {s_.hidden, m_.norms, trained()}, x.elements / s_.hidden);
}

/// RMSNorm.forward, which multiplies by the weight in fp32.
Var LitBlock::rms_norm(Var x) const {
  const DType type = x.type;
  x = to(graph_, x, DType::fp32);
  const Var variance = mean(graph_, mul(graph_, x, x), x.elements / s_.hidden);
  const Var root = rsqrt(graph_, add(graph_, variance, Var{1, DType::fp32}));
  const Var normed = mul(graph_, x, root);
  return to(graph_, mul(graph_, Weight{s_.hidden, DType::fp32, trained()}, normed), type);
}

bool LitBlock::is_adapted(LoraTarget target) const {
  const auto& targets = s_.lora.targets;
  return s_.lora.freezes() && std::find(targets.begin(), targets.end(), target) != targets.end();
}

Var LitBlock::base(const Var& x, std::int64_t outputs, bool bias) const {
  const std::int64_t elements = outputs * (x.elements / rows_);
  if (m_.quantised) {
    return tape::linear(
        graph_, x,
        Quantised{elements, s_.compute, m_.keeps_quantised_inputs, m_.unpacks_through_half}, rows_);
  }
  return tape::linear(graph_, x,
                      Matrix{{elements, m_.weights, trained()}, compute(m_.weights), bias}, rows_);
}

/// What an adapter makes of x by its first matrix.
Var LitBlock::lowered(const Var& x, std::int64_t rank) const {
  const Var input = m_.adapter_dropout ? dropout(graph_, x) : x;
  const std::int64_t elements = rank * (x.elements / rows_);
  return tape::linear(graph_, input,
                      Matrix{{elements, m_.adapters, true}, compute(m_.adapters), false}, rows_);
}

/// LoRALinear.forward.
Var LitBlock::linear(const Var& x, const std::vector<LoraTarget>& parts, std::int64_t outputs,
                     bool bias) const {
  Var result = base(x, outputs, bias);
  const bool adapted =
      std::any_of(parts.begin(), parts.end(), [&](LoraTarget each) { return is_adapted(each); });
  if (!adapted) return result;
  const Matrix up{{s_.lora.rank * outputs, m_.adapters, true}, compute(m_.adapters), false};
  const Var update = scale(graph_, tape::linear(graph_, lowered(x, s_.lora.rank), up, rows_));
  return add(graph_, result, update);
}

/// index_copy into zeros, which keeps what it copies.
Var LitBlock::padded(const Var& update, std::int64_t outputs) const {
  const Var laid = m_.interleaved_qkv ? copy(graph_, update) : update;
  const Var zeros = m_.interleaved_qkv ? graph_.make("zeros", rows_ * outputs, laid.type) : Var{};
  Var y = graph_.make("index_copy", rows_ * outputs, laid.type);
  graph_.join({laid}, {&y}, [&graph = graph_, kept = saved(laid)](const std::vector<Var>&) {
    return std::vector{graph.like("index_select", kept)};
  });
  return y;
}

/// LoRAQKVLinear.forward: a convolution in groups makes the parts that have adapters, each of
/// `rank` of the rows that are lowered for all.
Var LitBlock::qkv(const Var& x) const {
  using enum LoraTarget;
  const std::int64_t outputs = queries() + 2 * keys();
  Var result = base(x, outputs, b_.qkv_bias);
  std::int64_t parts = 0, width = 0;
  for (const auto& [target, part] :
       {std::pair{q_proj, queries()}, {k_proj, keys()}, {v_proj, keys()}}) {
    if (!is_adapted(target) && !is_adapted(qkv_proj)) continue;
    ++parts;
    width += part;
  }
  if (parts == 0) return result;
  const Var low = lowered(x, parts * s_.lora.rank);
  const Matrix up{{s_.lora.rank * width, m_.adapters, true}, compute(m_.adapters), false};
  Var update = tape::linear(graph_, narrow(graph_, low, rows_ * s_.lora.rank), up, rows_);
  if (grouped()) update = copy(graph_, update);  // the parts' outputs are joined
  if (width < outputs) update = padded(update, outputs);
  update = scale(graph_, update);
  return add(graph_, result, update);
}

/// apply_rope, whose cosines and sines are fp32.
Var LitBlock::rotated_part(const Var& x) const {
  const std::vector<Var> halves = chunk(graph_, x, 2);
  const Var turned = cat(graph_, {neg(graph_, halves[1]), halves[0]});
  const Var cosines{x.elements, DType::fp32};
  const Var sum = add(graph_, mul(graph_, x, cosines), mul(graph_, turned, cosines));
  return to(graph_, sum, x.type);
}

Var LitBlock::rotate(const Var& x) const {
  const std::int64_t turned = b_.rotary_dim > 0 ? b_.rotary_dim : b_.head_dim;
  const std::int64_t elements = x.elements / b_.head_dim * turned;
  if (elements == x.elements) return cat(graph_, {rotated_part(x)});
  const Var part = rotated_part(narrow(graph_, x, elements));
  return cat(graph_, {part, narrow(graph_, x, x.elements - elements)});
}

/// Views of the fused product, but where they do not lie so: of old, query heads of one group do
/// not lie beside those of the next, and keys and values are repeated before they are turned.
Var LitBlock::attention(const Var& x) const {
  const Var mixed = qkv(x);
  std::vector<Var> parts =
      split(graph_, mixed, {rows_ * queries(), rows_ * keys(), rows_ * keys()});
  Var q = std::move(parts[0]), k = std::move(parts[1]), v = std::move(parts[2]);
  const std::int64_t times = b_.heads / b_.kv_heads;
  const bool early = m_.interleaved_qkv;
  if (grouped() && early) {
    if (b_.kv_heads > 1) q = copy(graph_, q);
    k = repeat(graph_, k, times);
    v = repeat(graph_, v, times);
  }
  if (s_.rotary) {
    q = rotate(q);
    k = rotate(k);
  }
  if (grouped() && !early) {
    k = repeat(graph_, k, times);
    v = repeat(graph_, v, times);
  }
  const Var out = attend(q, k, v);
  return linear(out, {LoraTarget::o_proj}, s_.hidden, b_.out_bias);
}

Var LitBlock::attend(const Var& q, const Var& k, const Var& v) const {
  if (b_.logit_cap) return capped_attention(q, k, v);
  return flash_attention(graph_, q, k, v,
                         {s_.batch, s_.seq, b_.heads, b_.heads, b_.head_dim, m_.on_accelerator});
}

/// scaled_dot_product_attention, where scores go through a tanh.
Var LitBlock::capped_attention(const Var& q, const Var& k, const Var& v) const {
  const std::int64_t all = s_.batch * b_.heads * s_.seq * s_.seq;
  Var scores = scale(graph_, batched_product(graph_, q, k, all));
  scores = scale(graph_, tape::tanh(graph_, scale(graph_, scores)));
  scores = add(graph_, scores, Var{1, scores.type});  // the mask
  scores = to(graph_, softmax(graph_, scores, DType::fp32), q.type);
  return copy(graph_, batched_product(graph_, scores, v, q.elements));
}

Var LitBlock::activation(const Var& x) const {
  return b_.activation == Activation::silu ? silu(graph_, x) : gelu(graph_, x);
}

/// GptNeoxMLP, LLaMAMLP and GemmaMLP.
Var LitBlock::mlp(const Var& x) const {
  using enum LoraTarget;
  if (b_.mlp != MlpKind::gated) {
    const Var inner = linear(x, {up_proj}, b_.ffn, b_.mlp_bias);
    return linear(activation(inner), {down_proj}, s_.hidden, b_.mlp_bias);
  }
  const Var gate = linear(x, {gate_proj, gate_up_proj}, b_.ffn, b_.mlp_bias);
  const Var up = linear(x, {up_proj, gate_up_proj}, b_.ffn, b_.mlp_bias);
  return linear(mul(graph_, activation(gate), up), {down_proj}, s_.hidden, b_.mlp_bias);
}

}  // namespace planwright::estimator
