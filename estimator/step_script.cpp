#include "estimator/step_script.h"

#include "estimator/kernel_script.h"

namespace planwright::estimator {
namespace {

struct LogitTensors {
  Tensor logits, up, dlogits;
};

LogitTensors logits_of(const StepShape& s, std::int64_t rows) {
  const std::int64_t logits = rows * s.vocab;
  return {
      .logits = {"logits", s.e() * logits, Account::logits},
      .up = {"up", s.c() * logits, Account::logits},
      .dlogits = {"dlogits", s.e() * logits, Account::logits},
  };
}

}  // namespace

Script embedding_forward(const StepShape& s) {
  const Tensor whole = whole_rows(s);
  Script script;
  script.make(hidden_rows(s, "x")).make(whole);
  embed(script, s);
  return script.drop(whole);
}

Script embedding_backward(const StepShape& s) {
  const Tensor whole = whole_rows(s);
  Script script;
  if (s.lora.freezes()) return script;
  script.make(whole);
  embed_backward(script, s);
  script.drop(whole);
  if (!s.rotary) positions_backward(script, s);
  return script;
}

Script head_forward(const StepShape& s, NormKind norm) {
  Script script;
  script.make(hidden_rows(s, "nf")).make(norm_stats(s, norm, "stats"));
  norm_forward(script, s, hidden_norm(s, norm));
  return script.make(whole_rows(s));
}

Script head_product(const StepShape& s, std::int64_t rows) {
  Script script;
  script.make(logits_of(s, rows).logits);
  product(script, s, "head");
  return script;
}

Script loss(const StepShape& s, std::int64_t rows) {
  const LogitTensors t = logits_of(s, rows);
  Script script;
  if (s.upcasts()) script.make(t.up).drop(t.logits);
  cross_entropy(script, s, rows);
  return script.into(s.upcasts() ? t.up : t.logits, "loss gradient");
}

Script head_product_backward(const StepShape& s, std::int64_t rows) {
  const LogitTensors t = logits_of(s, rows);
  Script script;
  if (s.upcasts()) script.make(t.dlogits).drop(t.up);
  if (!s.lora.freezes()) weight_gradient(script, s, "d_head", s.vocab, s.hidden);
  script.into(hidden_rows(s, "nf"), "dnf");
  product(script, s, "dnf");
  return script.drop(s.upcasts() ? t.dlogits : t.logits);
}

Script head_backward(const StepShape& s, NormKind norm) {
  Script script;
  script.drop(whole_rows(s));
  norm_backward(script, s, hidden_norm(s, norm));
  script.into(hidden_rows(s, "nf"), "dy");
  return script.drop(norm_stats(s, norm, "stats")).drop(hidden_rows(s, "x"));
}

}  // namespace planwright::estimator
