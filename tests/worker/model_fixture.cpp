#include "model_fixture.h"

#include <ATen/Context.h>
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
constexpr std::int64_t kSequences = 2;

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
  ModelSpec normed = tiny_llama();
  normed.runs.front().block.qk_norm = true;
  ModelSpec neox = tiny_gpt();
  neox.positions = Positions::rotary;
  neox.runs.front().block.residual = Residual::parallel;
  ModelSpec shared = tiny_llama();
  shared.runs.front().block.residual = Residual::parallel_shared;
  shared.runs.front().block.qkv_bias = shared.runs.front().block.mlp_bias = true;
  using enum LoraTarget;
  ModelSpec adapted = normed;
  adapted.lora = {3, {q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj}};
  ModelSpec adapted_shared = shared;
  adapted_shared.tied_embeddings = true;
  adapted_shared.lora = {2, {qkv_proj, o_proj, gate_up_proj}};
  return {{"gpt", tiny_gpt()},     {"gpt_tied", tied},
          {"llama", tiny_llama()}, {"qwen", qwen},
          {"mixed", mixed},        {"normed", normed},
          {"neox", neox},          {"shared_norm", shared},
          {"adapted", adapted},    {"adapted_shared", adapted_shared}};
}

LoadedModel::LoadedModel(const ModelSpec& model, Precision precision)
    : LoadedModel(model, planwright::testing::fake_problem(model, 1, precision).workload.recipe) {}

LoadedModel::LoadedModel(const ModelSpec& model, const PrecisionRecipe& recipe)
    : problem(problem_of(model, recipe)),
      state(load_model(problem, flat_layout(model, 1, kBucketElements), kSeed, at::kCPU)) {
  at::manual_seed(kSeed);
  for (const FlatParameters& flat : {state.frozen_parameters(), state.trained_parameters()}) {
    for (const FlatTensor& tensor : flat.layout.tensors) {
      const at::Tensor view = tensor_view(flat.values, tensor);
      const at::Tensor noise = at::rand_like(view).sub_(0.5);
      view.dim() == 1 ? view.add_(noise) : view.add_(noise.mul_(0.4));
    }
  }
}

LoadedModel::Result LoadedModel::run(const How& how) {
  Group alone(0, 1, nullptr);
  const TensorParallel tensor(alone, false);
  Windows windows;
  state.gradients.zero_();
  Result result;
  for (int i = 0; i < kMicroBatches; ++i) {
    const PassContext pass{.model = problem.model,
                           .part = state.part,
                           .weights = state.weights,
                           .kernels = kernels(how.kernels),
                           .tensor = tensor,
                           .windows = windows,
                           .recompute = {how.recompute, 0, {}},
                           .gradient_scale = how.scale,
                           .attention = how.attention,
                           .loss = how.loss,
                           .dropout = dropout_of_batch(how.dropout, i)};
    result.loss += forward_backward(pass, sample_batch(problem, i));
  }
  result.gradients = state.gradients.to(at::kDouble).clone();
  return result;
}

Dropout dropout_of_batch(Dropout of_first, int index) {
  of_first.first_sample += index * kSequences;
  return of_first;
}

MicroBatch sample_batch(const Problem& problem, int index) {
  return micro_batch(kSeed, index * kSequences, kSequences, problem.workload.seq,
                     problem.model.vocab, at::kCPU);
}

double relative_difference(const at::Tensor& actual, const at::Tensor& expected) {
  const double largest = expected.abs().max().item<double>();
  return (actual - expected).abs().max().item<double>() / (largest > 0 ? largest : 1);
}

}  // namespace planwright::worker::testing
