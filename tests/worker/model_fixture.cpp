#include "model_fixture.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/zeros.h>

#include "probes/worker/device_memory.h"
#include "probes/worker/tokens.h"
#include "tests/support/fake_traits.h"

namespace planwright::worker::testing {
namespace {

/// Before any test's first tensor.
[[maybe_unused]] const bool installed = (install_device_memory(), true);

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kBucketElements = 3000;

Problem problem_of(const ModelSpec& model, const PrecisionRecipe& recipe) {
  Problem problem = planwright::testing::fake_problem(model, 1, Precision::fp32);
  problem.workload.recipe = recipe;
  return problem;
}

}  // namespace

std::vector<NamedModel> model_kinds() {
  using planwright::testing::tiny_gpt;
  using planwright::testing::tiny_llama;
  ModelSpec tied = tiny_gpt();
  tied.tied_embeddings = true;
  ModelSpec qwen = tiny_llama();
  qwen.tied_embeddings = true;
  qwen.runs.front().block.qkv_bias = true;
  ModelSpec mixed = tiny_llama();  // a gated gelu with layer norm, one shared key/value head
  BlockSpec& block = mixed.runs.front().block;
  block.kv_heads = 1;
  block.norm = NormKind::layer_norm;
  block.activation = Activation::gelu_tanh;
  block.qkv_bias = block.out_bias = block.mlp_bias = true;
  return {{"gpt", tiny_gpt()},
          {"gpt_tied", tied},
          {"llama", tiny_llama()},
          {"qwen", qwen},
          {"mixed", mixed}};
}

LoadedModel::LoadedModel(const ModelSpec& model, Precision precision)
    : LoadedModel(model, planwright::testing::fake_problem(model, 1, precision).workload.recipe) {}

LoadedModel::LoadedModel(const ModelSpec& model, const PrecisionRecipe& recipe)
    : problem(problem_of(model, recipe)),
      state(load_model(problem, flat_layout(model, 1, kBucketElements), kSeed, at::kCPU)) {
  for (const FlatTensor& tensor : state.layout.tensors) {
    const at::Tensor view = tensor_view(state.parameters, tensor);
    const at::Tensor noise = at::rand_like(view).sub_(0.5);
    view.dim() == 1 ? view.add_(noise) : view.add_(noise.mul_(0.4));
  }
}

LoadedModel::Result LoadedModel::run(KernelSet set, bool recompute) {
  return run(set, recompute, kScale);
}

LoadedModel::Result LoadedModel::run(KernelSet set, bool recompute, double scale) {
  Group alone(0, 1, nullptr);
  const TensorParallel tensor(alone, false);
  Windows windows;
  Recompute how;
  if (recompute) how.kind = RecomputeKind::full;
  const PassContext pass{problem.model, state.part, state.weights, kernels(set),
                         tensor,        windows,    how,           scale};
  state.gradients.zero_();
  Result result;
  for (int i = 0; i < kMicroBatches; ++i) {
    result.loss += forward_backward(pass, sample_batch(problem, i));
  }
  result.gradients = state.gradients.to(at::kDouble).clone();
  return result;
}

MicroBatch sample_batch(const Problem& problem, int index) {
  constexpr std::int64_t kSequences = 2;
  return micro_batch(kSeed, index * kSequences, kSequences, problem.workload.seq,
                     problem.model.vocab, at::kCPU);
}

double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const double largest = expected.abs().max().item<double>();
  return (actual - expected).abs().max().item<double>() / largest;
}

}  // namespace planwright::worker::testing
