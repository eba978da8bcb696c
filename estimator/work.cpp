#include "estimator/work.h"

#include "estimator/spec/model_part.h"
#include "estimator/work_widths.h"

namespace planwright::estimator {
namespace {

/// Bytes that it takes to bring operands of `width` elements per token to 8 bits: each is read,
/// twice where the largest value is looked for first, and written by rows and by columns.
double narrowing_bytes(const StepShape& s, double width) {
  if (s.te.fp8 == Fp8Recipe::none) return 0;
  const double reads = s.te.fp8 == Fp8Recipe::tensorwise ? 2 : 1;
  return static_cast<double>(s.tokens()) * width * (reads * static_cast<double>(s.e()) + 2);
}

/// Inputs of the block's products, and their results.
double input_widths(const Widths& w) { return 2 * w.hidden + w.attention + w.ffn; }
double output_widths(const Widths& w) { return 2 * w.hidden + qkv_width(w) + w.up; }

/// A weight gradient of another type than the product's is a product of its own and then added:
/// it is read once, the flat gradient is read and written.
double accumulate_bytes(const StepShape& s, double weights) {
  return s.g() == s.e() ? 0 : weights * static_cast<double>(s.e() + 2 * s.g());
}

/// Of a pass over `matrices` of `weights` whose frozen weights are packed: each is read as it is
/// stored and written as it is computed with, by way of fp16 where that is another type. Sources:
/// bitsandbytes-foundation/bitsandbytes bitsandbytes/autograd/_functions.py, MatMul4Bit, and
/// functional.py, dequantize_4bit @ 0.45.0: in forward and in backward.
Work unpacking_work(const StepShape& s, double weights, double matrices) {
  if (!s.modules.quantised) return {};
  const bool detour = s.modules.unpacks_through_half && s.compute != DType::fp16;
  const auto written = static_cast<double>(s.e());
  const double moved = detour ? 2.0 * static_cast<double>(bytes_of(DType::fp16)) : 0;
  return {.bytes = weights * (s.stored_weight + moved + written),
          .launches = matrices * (detour ? 2 : 1)};
}

/// Of all experts that the rank has, whatever tokens they get.
Work block_unpacking_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  const double mlp = b.mlp == MlpKind::gated ? 3 : 2, attention = 4;
  if (!b.moe) return unpacking_work(s, weights_of(w), attention + mlp);
  const double share = static_cast<double>(s.tp);
  const auto experts = static_cast<double>(b.moe->experts);
  const double ffn =
      (experts * static_cast<double>(b.moe->ffn) + static_cast<double>(b.moe->shared_ffn)) / share;
  const double shared = b.moe->shared_ffn > 0 ? 1 : 0;
  return unpacking_work(s, weights_of(w) + w.hidden * mlp * (ffn - w.ffn),
                        attention + mlp * (experts + shared));
}

/// Flops of the adapters' forward per token: A and B of each.
double lora_flops(const StepShape& s, const BlockSpec& b) {
  const BlockSpec share = tensor_share(b, static_cast<int>(s.tp));
  double flops = 0;
  for (const BlockMatrix matrix : kBlockMatrices) {
    for (const Adapter& each : adapters_of(s.lora, share, s.hidden, matrix)) {
      flops += 2.0 * static_cast<double>(s.lora.rank * (each.inputs + each.outputs));
    }
  }
  return flops;
}

int biases_of(const BlockSpec& b) {
  return (b.qkv_bias ? 1 : 0) + (b.out_bias ? 1 : 0) + (b.mlp_bias ? 2 : 0);
}

/// Rows that bias gradients are summed over, in elements per token.
double bias_widths(const BlockSpec& b, const Widths& w) {
  return (b.qkv_bias ? qkv_width(w) : 0) + (b.out_bias ? w.hidden : 0) +
         (b.mlp_bias ? w.up + w.hidden : 0);
}

/// Products of attention: of a query with a key or the like, or over a value.
struct Products {
  int keys = 0, values = 0;
  int count() const { return keys + values; }
};

/// Of the flash kernel only where a key is seen, of the eager one over the whole square.
void add_attention(Work& work, const StepShape& s, const BlockSpec& b, const Widths& w,
                   Products products, double weight_passes) {
  const double widths = products.keys * w.attention + products.values * w.values;
  const double flops = 2.0 * static_cast<double>(s.batch) * widths / static_cast<double>(s.cp);
  if (s.attention == AttentionKernel::flash) {
    work.attention_flops += flops * causal_pairs(s.seq, b.sliding_window);
    work.launches += 1;
    return;
  }
  const double square = static_cast<double>(s.seq) * static_cast<double>(s.seq);
  const double heads = w.attention / static_cast<double>(b.head_dim);
  work.matrix_flops += flops * square;
  work.bytes += static_cast<double>(s.e() * s.batch) * heads * square * weight_passes /
                static_cast<double>(s.cp);
  work.launches +=
      products.count() * static_cast<double>(s.batch) * heads + 1;  // a product for each head
}

/// How many of each a block has.
struct Parts {
  double norms, residuals;
  bool qk_norm, rotary;
};
Parts parts_of(const StepShape& s, const BlockSpec& b) {
  return {b.residual == Residual::parallel_shared ? 1.0 : 2.0,
          b.residual == Residual::sequential ? 2.0 : 1.0, b.qk_norm, s.rotary};
}

/// Times that each of q and k is read or written by what is between qkv and attention.
double head_passes(const Parts& parts, double of_norm) {
  return (parts.rotary ? 2 : 0) + (parts.qk_norm ? of_norm : 0);
}

/// Rows that go to their experts' order and back, each read and written, in either direction; those
/// that come from other ranks for several experts are put in order once more. Sources:
/// Megatron-LM megatron/core/transformer/moe/token_dispatcher.py @ core_v0.14.0; torchtitan
/// models/moe, TokenReorderer.
double moved_elements(const StepShape& s, const BlockSpec& b, const Widths& w) {
  if (!b.moe) return 0;
  const double orders = s.ep > 1 && b.moe->experts > s.ep ? 2 : 1;
  return local_share(s) * 2 * orders * 2 * static_cast<double>(b.moe->top_k) * w.hidden;
}

/// Elements per token that a forward's memory-bound kernels read and write: norms (read, write), q
/// and k turned and normed (read, write), residuals copied below their projection (read, write),
/// the activation (reads `up`, writes ffn), and rows for experts.
double forward_elements(const StepShape& s, const BlockSpec& b, const Widths& w) {
  const Parts parts = parts_of(s, b);
  return local_share(s) * (2 * parts.norms + 2 * parts.residuals) * w.hidden +
         head_passes(parts, 2) * (w.attention + w.kv) + (w.up + w.ffn) + moved_elements(s, b, w);
}

}  // namespace

double causal_pairs(std::int64_t seq, std::int64_t sliding_window) {
  const double s = static_cast<double>(seq);
  const double w =
      sliding_window > 0 && sliding_window < seq ? static_cast<double>(sliding_window) : s;
  return w * (w + 1) / 2 + (s - w) * w;
}

Work block_forward_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  Work work;
  work.matrix_flops = product_flops(s, weights_of(w)) + tokens * lora_flops(s, b);
  work.other_weights = other_weights(s, w, mlp_weights(w));
  work.bytes = static_cast<double>(s.e()) * tokens * forward_elements(s, b, w) +
               narrowing_bytes(s, input_widths(w));
  // Norms, four products, residual copies, the activation; rotary positions, two norms of heads.
  const Parts parts = parts_of(s, b);
  work.launches =
      5 + parts.norms + parts.residuals + (parts.rotary ? 1 : 0) + (parts.qk_norm ? 2 : 0);
  work += attention_work(s, b);
  work += block_unpacking_work(s, b);
  return work;
}

Work attention_work(const StepShape& s, const BlockSpec& b) {
  Work work;
  // Scores; weighted sum of values. The eager kernel reads and writes the weights twice: made and
  // normalised.
  add_attention(work, s, b, widths_of(s, b), {.keys = 1, .values = 1}, 4);
  return work;
}

Work block_backward_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  Work work;
  // Gradients of inputs, and of the weights that are trained.
  const bool frozen = s.lora.freezes();
  work.matrix_flops =
      (frozen ? 1 : 2) * product_flops(s, weights_of(w)) + 2 * tokens * lora_flops(s, b);
  work.other_weights = (frozen ? 1 : 2) * other_weights(s, w, mlp_weights(w));
  // The activation reads its gradient and `up` and writes as much as `up`; each norm reads its
  // gradient and input and adds into dy; dq, dk, dv are copied and turned back, and normed heads
  // read with their input and written.
  const Parts parts = parts_of(s, b);
  const double elements = (w.ffn + 2 * w.up) + local_share(s) * 4 * parts.norms * w.hidden +
                          2 * qkv_width(w) + head_passes(parts, 3) * (w.attention + w.kv) +
                          bias_widths(b, w) + moved_elements(s, b, w);
  work.bytes = static_cast<double>(s.e()) * tokens * elements +
               (frozen ? 0 : accumulate_bytes(s, read_weights(w))) +
               narrowing_bytes(s, output_widths(w));
  // Eight products, the activation, norms, one copy; rotary positions, biases, sums.
  work.launches = 10 + parts.norms + (parts.rotary ? 1 : 0) + (parts.qk_norm ? 2 : 0) +
                  biases_of(b) + (s.g() == s.e() ? 0 : 4);
  // The flash kernel: scores again, dv, dP, dq, dk. The eager one has the weights; it reads them
  // twice and writes and reads their gradient.
  const bool flash = s.attention == AttentionKernel::flash;
  add_attention(work, s, b, w, {.keys = flash ? 3 : 2, .values = 2}, 6);
  work += block_unpacking_work(s, b);
  return work;
}

Work block_weights_work(const StepShape& s, const BlockSpec& b) {
  const Widths w = widths_of(s, b);
  Work work;
  if (s.lora.freezes()) return work;
  work.matrix_flops = product_flops(s, weights_of(w));
  work.other_weights = other_weights(s, w, mlp_weights(w));
  work.bytes = accumulate_bytes(s, read_weights(w));
  return work;
}

/// Without attention and every other one of wq, wk, wv, wo, the products that lead up and the last
/// one, whose results are there: see estimator/torch_block.
Work rebuild_beside_saved(const StepShape& s, const BlockSpec& b) {
  Work work = block_forward_work(s, b);
  const Work attention = attention_work(s, b);
  const Widths w = widths_of(s, b);
  const double of_mlp = b.mlp == MlpKind::gated ? w.up / 2 + w.ffn : w.up;
  work.matrix_flops -= product_flops(s, w.hidden * (w.attention + w.kv + of_mlp));
  work.other_weights -= other_weights(s, w, w.hidden * of_mlp);
  work.matrix_flops -= attention.matrix_flops;
  work.attention_flops -= attention.attention_flops;
  work.bytes -= attention.bytes;
  work.launches -= attention.launches;
  return work;
}

Work block_rebuild_work(const StepShape& s, const BlockSpec& b, bool output) {
  if (s.saves_ops) return rebuild_beside_saved(s, b);
  Work work = block_forward_work(s, b);
  if (output) return work;
  const Widths w = widths_of(s, b);
  const double tokens = static_cast<double>(s.tokens());
  const bool sequential = b.residual == Residual::sequential;
  const double inputs = w.ffn + (sequential ? 0 : w.attention);  // of the projections
  work.matrix_flops -= product_flops(s, w.hidden * inputs);
  work.other_weights -= other_weights(s, w, w.hidden * w.ffn);
  work.bytes -= static_cast<double>(s.e()) * tokens * local_share(s) * 2 * w.hidden;
  work.launches -= sequential ? 2 : 3;
  return work;
}

Work embedding_work(const StepShape& s) {
  const double width = static_cast<double>(s.tokens() * s.hidden);
  const double e = static_cast<double>(s.e()), g = static_cast<double>(s.g());
  const double tables = s.rotary ? 1 : 1 + local_share(s);
  Work work;
  // Rows are gathered and written; in backward dy is read and the gradient rows read and written.
  const bool frozen = s.lora.freezes();
  work.bytes = width * ((tables + 1) * e + (frozen ? 0 : tables * (e + 2 * g)));
  work.launches = (s.rotary ? 1 : 2) * (frozen ? 1 : 2);  // gathering and scattering per table
  return work;
}

Work head_work(const StepShape& s) {
  const double tokens = static_cast<double>(s.tokens());
  const double hidden = static_cast<double>(s.hidden), vocab = static_cast<double>(s.vocab);
  const double e = static_cast<double>(s.e()), c = static_cast<double>(s.c());
  const bool upcast = s.upcasts();
  const auto chunks = static_cast<double>(loss_chunks(s.loss, s.tokens()).count);
  Work work;
  const bool frozen = s.lora.freezes();
  work.matrix_flops = (frozen ? 4 : 6) * tokens * hidden * vocab;
  // The loss reads the logits and writes their gradient; upcasts read one type and write the other.
  // Each chunk adds to the whole weight gradient.
  const double loss_bytes = upcast ? 2 * c + 2 * (e + c) : 2 * e;
  work.bytes =
      tokens * vocab * loss_bytes + (frozen ? 0 : chunks * accumulate_bytes(s, hidden * vocab));
  work.bytes += tokens * local_share(s) * hidden * 6 * e;  // final norm: 2 forward, 4 backward
  // Norm forwards and backwards; of each chunk the product, the loss and two products.
  work.launches = 2 + chunks * (4 + (upcast ? 2 : 0) + (s.g() == s.e() ? 0 : 1));
  if (s.modules.quantised_head) {  // for each chunk's product, forwards and backwards
    work += 2 * chunks * unpacking_work(s, hidden * vocab, 1);
  }
  return work;
}

}  // namespace planwright::estimator
