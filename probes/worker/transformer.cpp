#include "probes/worker/transformer.h"

#include <ATen/ops/empty.h>

#include <utility>
#include <vector>

#include "probes/worker/block.h"
#include "probes/worker/device_memory.h"
#include "probes/worker/matmul.h"

namespace planwright::worker {
namespace {

/// One micro-batch on its way through the model.
class Pass {
 public:
  Pass(const PassContext& context, MicroBatch micro_batch)
      : c_(context), in_(std::move(micro_batch)) {}

  double run() {
    forward();
    const double loss = loss_and_gradient();
    backward();
    return loss;
  }

 private:
  void forward();
  double loss_and_gradient();
  void backward();
  void head_backward();

  BlockContext block(std::size_t layer) const {
    return {c_.model.block(static_cast<std::int64_t>(layer)), c_.weights.blocks[layer],
            c_.weights.rotary, c_.kernels, in_.batch};
  }
  std::int64_t seq() const { return in_.ids.numel() / in_.batch; }

  const PassContext& c_;
  MicroBatch in_;
  std::vector<at::Tensor> inputs_;  ///< of each block, then of the final norm
  std::vector<BlockState> states_;  ///< empty with recompute
  at::Tensor normed_, stats_;       ///< the final norm's
  at::Tensor logits_;               ///< then the loss's gradient, in either type
  at::Tensor dy_;
};

void Pass::forward() {
  const PhaseScope phase(Phase::forward);
  const auto options = c_.weights.embedding.tokens.options();
  inputs_.push_back(at::empty({in_.ids.numel(), c_.model.hidden}, options));
  c_.kernels.embed(in_.ids, c_.weights.embedding, seq(), inputs_.back());
  for (std::size_t layer = 0; layer < c_.weights.blocks.size(); ++layer) {
    BlockState state = block_state(block(layer), inputs_.back());
    inputs_.push_back(block_output(block(layer), state));
    if (!c_.recompute) states_.push_back(std::move(state));
  }

  const at::Tensor& x = inputs_.back();
  const NormWeights& norm = c_.weights.final_norm;
  normed_ = at::empty(x.sizes(), options);
  stats_ = empty_stats(norm, x.size(0), accumulation_type(x.scalar_type()), x);
  c_.kernels.norm_forward(x, norm, normed_, stats_);
  {
    const AccountScope account(Account::logits);
    logits_ = at::empty({x.size(0), c_.model.vocab}, options);
  }
  linear(normed_, c_.weights.head, logits_);
}

double Pass::loss_and_gradient() {
  const PhaseScope phase(Phase::loss);
  const at::ScalarType wide = stats_.scalar_type();
  if (logits_.scalar_type() != wide) {
    const AccountScope account(Account::logits);
    at::Tensor upcast = at::empty(logits_.sizes(), logits_.options().dtype(wide));
    upcast.copy_(logits_);
    logits_ = std::move(upcast);
  }
  return c_.kernels.cross_entropy(logits_, in_.targets, c_.gradient_scale);
}

void Pass::head_backward() {
  if (logits_.scalar_type() != normed_.scalar_type()) {
    const AccountScope account(Account::logits);
    at::Tensor narrow = at::empty(logits_.sizes(), normed_.options());
    narrow.copy_(logits_);
    logits_ = std::move(narrow);
  }
  weight_gradient(c_.kernels, logits_, normed_, c_.weights.head);
  input_gradient(logits_, c_.weights.head, normed_);
  logits_.reset();
  dy_ = std::move(normed_);
  c_.kernels.norm_backward(dy_, inputs_.back(), stats_, c_.weights.final_norm, dy_, false);
  stats_.reset();
  inputs_.pop_back();
}

void Pass::backward() {
  const PhaseScope phase(Phase::backward);
  head_backward();
  for (std::size_t layer = c_.weights.blocks.size(); layer-- > 0;) {
    at::Tensor x = std::move(inputs_.back());
    inputs_.pop_back();
    BlockState state;
    if (c_.recompute) {
      state = block_state(block(layer), x);
    } else {
      state = std::move(states_.back());
      states_.pop_back();
    }
    block_backward(block(layer), std::move(state), std::move(x), dy_);
  }
  c_.kernels.embed_backward(in_.ids, dy_, c_.weights.embedding, seq());
  dy_.reset();
}

}  // namespace

double forward_backward(const PassContext& context, MicroBatch micro_batch) {
  return Pass(context, std::move(micro_batch)).run();
}

}  // namespace planwright::worker
