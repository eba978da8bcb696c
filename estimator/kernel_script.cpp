#include "estimator/kernel_script.h"

#include <algorithm>

namespace planwright::estimator {
namespace {

bool composed(const StepShape& s) { return s.kernels != KernelSet::in_place; }

/// A copy in the accumulation type of what is narrower; nothing otherwise.
Tensor widened(const StepShape& s, std::int64_t elements) {
  return {"wide", s.e() < s.c() ? s.c() * elements : 0};
}

/// The same before something is added to a gradient: nothing if that is as narrow.
Tensor widened_for_gradient(const StepShape& s, std::int64_t elements) {
  return {"wide", s.e() < s.g() ? s.g() * elements : 0};
}

Tensor rows_of(const StepShape& s, const char* name, std::int64_t width) {
  return {name, s.c() * s.tokens() * width};
}

/// Made, and released before the kernel returns.
void pass(Script& script, const Tensor& tensor) {
  if (tensor.bytes > 0) script.make(tensor).drop(tensor);
}

/// A mean divides by a number. On a CPU the operator makes tensors of it: one double, and one of
/// the type that is computed in.
void divide_by_number(Script& script, const StepShape& s) {
  if (s.device == DeviceKind::cpu) pass(script, {"number", 8 + s.c()});
}

/// Whether a matrix product takes scratch of its own: on a CPU the half-precision ones do. An
/// accelerator's library holds its workspace all the time (see QuantityTable).
bool takes_scratch(const StepShape& s) { return s.device == DeviceKind::cpu && s.e() < s.c(); }

/// g ≠ e: the product is a tensor of its own, added into the flat gradient by a kernel.
void accumulated_product(Script& script, const StepShape& s, const char* name,
                         std::int64_t elements) {
  const Tensor t{"t", s.e() * elements};
  script.make(t);
  product(script, s, name);
  if (composed(s)) pass(script, widened(s, elements));
  script.drop(t);
}

std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Queries and keys that one thread of the CPU flash kernel works on at a time.
/// Source: pytorch aten/src/ATen/native/cpu/FlashAttentionKernel.cpp @ v2.11.0.
std::int64_t query_split(std::int64_t seq) {
  return std::min<std::int64_t>(seq >= 768 ? 256 : seq >= 192 ? 64 : 32, seq);
}
std::int64_t key_split(std::int64_t seq) { return std::min<std::int64_t>(512, seq); }

}  // namespace

void product(Script& script, const StepShape& s, const char* name) {
  script.call(name, 0, takes_scratch(s));
}

void weight_gradient(Script& script, const StepShape& s, const char* name, std::int64_t n,
                     std::int64_t m) {
  if (s.g() == s.e()) {
    product(script, s, name);
  } else {
    accumulated_product(script, s, name, n * m);
  }
}

void bias_gradient(Script& script, const StepShape& s, std::int64_t rows, std::int64_t n) {
  if (!composed(s)) return pass(script, {"t", s.c() * s.threads * n});
  const Tensor wide = widened_for_gradient(s, rows * n);
  script.make(wide);
  pass(script, {"sum", s.g() * n});
  script.drop(wide);
}

void attention_forward(Script& script, const StepShape& s, const BlockSpec& block) {
  script.call("attention", attention_forward_workspace(s, block), takes_scratch(s));
}

/// An accelerator's kernel runs under a graph of its own and its transients are booked as tensors.
void attention_backward(Script& script, const StepShape& s, const BlockSpec& block) {
  const std::int64_t workspace = attention_backward_workspace(s, block);
  if (s.device != DeviceKind::cpu) return pass(script, {"attention scratch", workspace});
  script.call("attention backward", workspace, takes_scratch(s));
}

void causal_softmax(Script& script, const StepShape& s, const BlockSpec& share) {
  if (!composed(s)) return;
  const Tensor scores{"scores", s.e() * s.batch * share.heads * s.seq * s.seq};
  const Tensor outside{"outside", s.seq * s.seq};
  script.make(scores).make(outside);
  const bool windowed = share.sliding_window > 0 && share.sliding_window < s.seq;
  if (windowed) pass(script, outside);
  script.drop(outside).drop(scores);
}

void softmax_backward(Script& script, const StepShape& s, const BlockSpec& share) {
  if (composed(s)) pass(script, {"sum", s.e() * s.batch * share.heads * s.seq});
}

NormRows hidden_norm(const StepShape& s, NormKind kind) {
  return {kind, s.local_tokens(), s.hidden};
}

void norm_forward(Script& script, const StepShape& s, const NormRows& norm) {
  if (!composed(s)) return;
  const Tensor unit{"unit", s.c() * norm.rows * norm.width};
  const Tensor squares{"squares", unit.bytes};
  script.make(unit).make(squares);
  divide_by_number(script, s);
  script.drop(squares);
  pass(script, widened(s, norm.width));
  script.drop(unit);
}

void norm_backward(Script& script, const StepShape& s, const NormRows& norm) {
  const bool trained = !s.lora.freezes();
  if (!composed(s)) {
    const std::int64_t sums = !trained ? 0 : norm.kind == NormKind::layer_norm ? 2 : 1;
    return pass(script, {"t", sums * s.c() * s.threads * norm.width});
  }
  const Tensor unit{"unit", s.c() * norm.rows * norm.width};
  const Tensor gradient{"gradient", unit.bytes}, weighted{"product", unit.bytes};
  script.make(unit).make(gradient).make(weighted);
  if (trained) pass(script, {"sum", s.c() * norm.width});
  pass(script, widened(s, norm.width));
  const Tensor mean{"mean", s.c() * norm.rows};
  script.make(mean);
  divide_by_number(script, s);
  script.drop(mean).drop(weighted).drop(gradient).drop(unit);
}

void rotate(Script& script, const StepShape& s, std::int64_t width) {
  if (!composed(s) || !s.rotary) return;
  const Tensor low = rows_of(s, "low", width / 2);
  const Tensor high = rows_of(s, "high", width / 2);
  const Tensor rotated = rows_of(s, "rotated", width / 2);
  script.make(low).make(high).make(rotated).drop(rotated).drop(high).drop(low);
}

void gated_backward(Script& script, const StepShape& s, std::int64_t ffn) {
  if (composed(s)) pass(script, {"d_up", s.e() * s.tokens() * ffn});
}

namespace {

/// Where each of `rows` tokens is among this rank's rows of the vocabulary, and which are not.
struct LocalRows {
  LocalRows(const StepShape& s, std::int64_t rows, Account account = Account::activations)
      : index{"index", s.tp > 1 ? 8 * rows : 0, account},
        outside{"outside", s.tp > 1 ? rows : 0, account} {}

  void make(Script& script) const {
    script.make(index).make(outside);
    pass(script, outside);
  }
  void drop(Script& script) const { script.drop(outside).drop(index); }

  Tensor index, outside;
};

/// The composed fused loss makes some rows wide at a time.
struct WideRows {
  WideRows(const StepShape& s, std::int64_t all)
      : narrow(composed(s) && s.e() < s.c() && !upcasts_logits(s.loss)),
        rows(narrow ? std::min(all, kFusedRows) : all),
        copy{"wide rows", narrow ? s.c() * rows * s.vocab : 0, Account::logits} {}

  bool narrow;
  std::int64_t rows;
  Tensor copy;
};

/// The sum of the losses of some rows, in doubles; on a CPU they are first copied to be ones.
void sum_losses(Script& script, const StepShape& s, std::int64_t rows, Account account) {
  const Tensor losses{"losses", s.c() * rows, account}, sum{"sum", 8, account};
  const bool copied = s.device == DeviceKind::cpu && s.c() < 8;
  script.make(losses).make(sum);
  pass(script, {"doubles", copied ? 8 * rows : 0, account});
  script.drop(sum).drop(losses);
}

/// The largest logits and the sums of this rank's columns, each then put together over the ranks.
void shared_cross_entropy(Script& script, const StepShape& s, std::int64_t all) {
  const auto numbers = [&](const char* name, std::int64_t count) {
    return Tensor{name, s.c() * count, Account::communication};
  };
  const Tensor sums = numbers("sums", 2 * all), largest = numbers("largest", all);
  const WideRows wide(s, all);
  const LocalRows local(s, wide.rows, Account::communication);
  script.make(sums).make(largest);
  if (composed(s)) {
    pass(script, wide.copy);
    const auto in_wide_rows = [&](const char* what, const auto& meanwhile) {
      script.make(wide.copy);
      local.make(script);
      script.make(numbers(what, wide.rows));
      meanwhile();
      script.drop(numbers(what, wide.rows));
      local.drop(script);
      script.drop(wide.copy);
    };
    in_wide_rows("of_target", [] {});
    in_wide_rows("ones", [&] { sum_losses(script, s, wide.rows, Account::communication); });
  }
  script.drop(largest).drop(sums);
}

}  // namespace

void cross_entropy(Script& script, const StepShape& s, std::int64_t all) {
  if (s.tp > 1) return shared_cross_entropy(script, s, all);
  if (!composed(s)) return;
  const WideRows wide(s, all);
  const auto column = [&](const char* name) { return Tensor{name, s.c() * wide.rows}; };
  const Tensor of_target = column("of_target"), largest = column("largest"),
               total = column("total");
  script.make(wide.copy).make(of_target).make(largest).make(total);
  pass(script, column("minus one"));
  sum_losses(script, s, wide.rows, Account::activations);
  script.drop(total).drop(largest).drop(of_target).drop(wide.copy);
}

void embed(Script& script, const StepShape& s) {
  if (!composed(s)) return;
  const LocalRows local(s, s.tokens());
  local.make(script);
  local.drop(script);
}

void embed_backward(Script& script, const StepShape& s) {
  if (!composed(s)) return;
  const LocalRows local(s, s.tokens());
  local.make(script);
  pass(script, s.tp > 1 ? Tensor{"masked", s.g() * s.tokens() * s.hidden}
                        : widened_for_gradient(s, s.tokens() * s.hidden));
  local.drop(script);
}

void positions_backward(Script& script, const StepShape& s) {
  if (composed(s)) pass(script, widened_for_gradient(s, s.local_tokens() * s.hidden));
}

std::int64_t attention_forward_workspace(const StepShape& s, const BlockSpec& block) {
  if (s.device != DeviceKind::cpu) return 0;
  const std::int64_t tile = s.threads * query_split(s.seq) * key_split(s.seq);
  const std::int64_t scores =
      s.c() * s.threads * query_split(s.seq) * (key_split(s.seq) + 2 + block.head_dim);
  return scores + (s.e() < s.c() ? s.e() * tile : 0);
}

/// On a CPU two tiles of scores per thread, their copies in the compute type if that is narrower,
/// and a row of sums per running thread. On an accelerator (pytorch
/// aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp @ v2.11.0): a wide accumulator
/// of dq with rows rounded to 128 and heads to 32, a sum per query, and dk and dv expanded to every
/// query head before they are reduced.
std::int64_t attention_backward_workspace(const StepShape& s, const BlockSpec& block) {
  if (s.device == DeviceKind::cpu) {
    const std::int64_t tile = s.threads * query_split(s.seq) * key_split(s.seq);
    const std::int64_t running = std::min(s.threads, s.batch * block.heads);
    return 2 * s.c() * tile + (s.e() < s.c() ? 2 * s.e() * tile : 0) +
           4 * query_split(s.seq) * running;
  }
  const std::int64_t rows = s.batch * block.heads * round_up(s.seq, 128);
  const std::int64_t expanded =
      block.heads == block.kv_heads ? 0 : 2 * s.e() * s.tokens() * block.heads * block.head_dim;
  return s.c() * rows * (round_up(block.head_dim, 32) + 1) + expanded;
}

}  // namespace planwright::estimator
