#include "estimator/hf_block.h"

#include <algorithm>
#include <utility>

#include "estimator/kernel_script.h"

namespace planwright::estimator {

using namespace tape;

Var HfBlock::forward(Var hidden) const {
  Var residual = hidden;
  hidden = norm(std::move(hidden), s_.hidden);
  if (b_.residual == Residual::parallel_shared) {
    Var attended = attention(hidden);
    hidden = mlp(hidden);
    return add(graph_, add(graph_, attended, hidden), residual);
  }
  if (b_.residual == Residual::parallel) {
    Var attended = attention(hidden);
    hidden = mlp(norm(residual, s_.hidden));
    return add(graph_, add(graph_, attended, hidden), residual);
  }
  hidden = attention(hidden);
  const Var held = is_gpt2() ? hidden : Var{};
  hidden = add(graph_, residual, hidden);
  residual = hidden;
  hidden = norm(std::move(hidden), s_.hidden);
  hidden = mlp(hidden);
  return add(graph_, residual, hidden);
}

Var HfBlock::norm(Var x, std::int64_t width) const {
  const std::int64_t rows = x.elements / width;
  const Weight weight{width, m_.norms, trained()};
  if (b_.norm == NormKind::rms_norm) {
    return m_.fused_norms ? fused_rms_norm(graph_, x, weight, rows) : rms_norm(std::move(x), width);
  }
  if (m_.autocast) x = to(graph_, x, DType::fp32);  // torch's list of what runs in fp32
  return layer_norm(graph_, x, weight, rows);
}

/// LlamaRMSNorm.forward.
Var HfBlock::rms_norm(Var hidden, std::int64_t width) const {
  const DType input_type = hidden.type;
  hidden = to(graph_, hidden, DType::fp32);
  const Var variance = mean(graph_, square(graph_, hidden), hidden.elements / width);
  Var root = rsqrt(graph_, add(graph_, variance, Var{1, DType::fp32}));
  hidden = mul(graph_, hidden, root);
  root = {};
  return mul(graph_, Weight{width, m_.norms, trained()}, to(graph_, hidden, input_type));
}

/// A fused matrix is, where one of its parts is named.
bool HfBlock::is_adapted(LoraTarget target) const {
  using enum LoraTarget;
  const auto named = [&](LoraTarget each) {
    const auto& targets = s_.lora.targets;
    return std::find(targets.begin(), targets.end(), each) != targets.end();
  };
  if (!s_.lora.freezes()) return false;
  return named(target) || (target == qkv_proj && (named(q_proj) || named(k_proj) || named(v_proj)));
}

Var HfBlock::project(const Var& x, LoraTarget target, std::int64_t outputs, bool bias) const {
  Var result = base(x, outputs, bias);
  return is_adapted(target) ? adapted(x, std::move(result), outputs) : result;
}

Var HfBlock::base(const Var& x, std::int64_t outputs, bool bias) const {
  const std::int64_t elements = outputs * (x.elements / rows_);
  if (m_.quantised) {
    return linear(graph_, x, Quantised{elements, s_.compute, m_.keeps_quantised_inputs}, rows_);
  }
  return linear(graph_, x, Matrix{{elements, m_.weights, trained()}, compute(m_.weights), bias},
                rows_);
}

/// lora.Linear.forward; that of a 4-bit matrix clones the result, and under autocast leaves the
/// input as it is.
Var HfBlock::adapted(const Var& x, Var result, std::int64_t outputs) const {
  const DType type = result.type;
  const bool converts = !(m_.quantised && m_.autocast);
  const auto factor = [&](std::int64_t elements) {
    return Matrix{{elements, m_.adapters, true}, compute(m_.adapters), false};
  };
  if (m_.quantised) result = copy(graph_, result);
  const Var input = converts ? to(graph_, x, m_.adapters) : x;
  Var low = m_.adapter_dropout ? dropout(graph_, input) : input;
  low = linear(graph_, low, factor(s_.lora.rank * (x.elements / rows_)), rows_);
  Var update = linear(graph_, low, factor(s_.lora.rank * outputs), rows_);
  low = {};
  update = scale(graph_, update);
  if (m_.quantised && converts) update = to(graph_, update, type);
  result = add(graph_, result, update);
  update = {};
  return m_.quantised ? result : to(graph_, result, type);
}

/// Cosines come in the type of what goes between blocks.
Var HfBlock::rotate(const Var& x) const { return rotary(graph_, x, m_.stream); }

/// The scores' softmax is as narrow as they are, and attention's output has a name of its own.
bool HfBlock::is_gpt2() const { return m_.fused_qkv && queries() == keys(); }

std::vector<Var> HfBlock::queries_keys_values(const Var& x) const {
  if (m_.fused_qkv) {
    const Var mixed = project(x, LoraTarget::qkv_proj, queries() + 2 * keys(), b_.qkv_bias);
    return split(graph_, mixed, {rows_ * queries(), rows_ * keys(), rows_ * keys()});
  }
  using enum LoraTarget;
  Var q = project(x, q_proj, queries(), b_.qkv_bias);
  Var k = project(x, k_proj, keys(), b_.qkv_bias);
  Var v = project(x, v_proj, keys(), b_.qkv_bias);
  return {std::move(q), std::move(k), std::move(v)};
}

Var HfBlock::attention(const Var& x) const {
  std::vector<Var> parts = queries_keys_values(x);
  Var q = std::move(parts[0]), k = std::move(parts[1]), v = std::move(parts[2]);
  parts.clear();
  if (b_.qk_norm) {
    q = norm(std::move(q), b_.head_dim);
    k = norm(std::move(k), b_.head_dim);
  }
  if (s_.rotary && !m_.fused_rotary) {
    Var q_turned = rotate(q);
    Var k_turned = rotate(k);
    q = std::move(q_turned);
    k = std::move(k_turned);
  }
  const Var out = attend(q, k, v);
  return dropped(project(out, LoraTarget::o_proj, s_.hidden, b_.out_bias));
}

Var HfBlock::attend(Var q, Var k, Var v) const {
  const bool eagerly = s_.attention == AttentionKernel::eager;
  if (m_.repeats_kv || eagerly) {
    k = repeat(graph_, k, b_.heads / b_.kv_heads);
    v = repeat(graph_, v, b_.heads / b_.kv_heads);
  }
  if (eagerly) return eager(q, k, v);
  const DType type = m_.autocast ? s_.compute : q.type;
  q = to(graph_, q, type);
  k = to(graph_, k, type);
  v = to(graph_, v, type);
  const std::int64_t kv_heads = k.elements / (rows_ * b_.head_dim);
  Heads all{s_.batch, s_.seq, b_.heads, kv_heads, b_.head_dim, m_.on_accelerator};
  if (!m_.on_accelerator) {
    all.forward_workspace = attention_forward_workspace(s_, b_);
    all.backward_workspace = attention_backward_workspace(s_, b_);
  }
  return flash_attention(graph_, q, k, v, all);
}

/// eager_attention_forward. Operands of the products are copied where heads do not lie in a row.
Var HfBlock::eager(const Var& q, const Var& k, const Var& v) const {
  const std::int64_t scores = s_.batch * b_.heads * s_.seq * s_.seq;
  const bool copies = s_.batch > 1;
  const bool repeated = b_.heads > b_.kv_heads;
  const auto operand = [&](const Var& x, bool lies) {
    return copies && !lies ? copy(graph_, x) : x;
  };
  Var weights = batched_product(graph_, operand(q, false), operand(k, repeated), scores);
  weights = scale(graph_, weights);
  weights = add(graph_, weights, Var{1, weights.type});  // the causal mask
  weights = to(graph_, softmax(graph_, weights, is_gpt2() ? weights.type : DType::fp32), q.type);
  if (s_.attention_dropout) weights = dropout(graph_, weights);
  const Var out = batched_product(graph_, weights, operand(v, repeated), q.elements);
  return copy(graph_, out);
}

Var HfBlock::mlp(const Var& x) const {
  const Var inner = b_.mlp == MlpKind::gated
                        ? gated(x)
                        : activation(project(x, LoraTarget::up_proj, b_.ffn, b_.mlp_bias));
  return dropped(project(inner, LoraTarget::down_proj, s_.hidden, b_.mlp_bias));
}

Var HfBlock::gated(const Var& x) const {
  Var gate = project(x, LoraTarget::gate_proj, b_.ffn, b_.mlp_bias);
  if (!m_.fused_swiglu) gate = activation(gate);
  const Var up = project(x, LoraTarget::up_proj, b_.ffn, b_.mlp_bias);
  return m_.fused_swiglu ? fused_swiglu(graph_, gate, up) : mul(graph_, gate, up);
}

Var HfBlock::activation(const Var& x) const {
  if (b_.activation == Activation::silu) return silu(graph_, x);
  return m_.python_gelu ? gelu_new(x) : gelu(graph_, x);
}

/// NewGELUActivation: 0.5 x (1 + tanh(c (x + a x³))).
Var HfBlock::gelu_new(const Var& x) const {
  const Var half = scale(graph_, x);
  Var inner = square(graph_, x);
  inner = scale(graph_, inner);
  inner = add(graph_, x, inner);
  inner = scale(graph_, inner);
  inner = tanh(graph_, inner);
  inner = add(graph_, inner, Var{1, x.type});
  return mul(graph_, half, inner);
}

Var HfBlock::dropped(const Var& x) const { return s_.hidden_dropout ? dropout(graph_, x) : x; }

}  // namespace planwright::estimator
