#include "probes/worker/model_state.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <map>
#include <utility>

#include "probes/worker/device_memory.h"
#include "probes/worker/tokens.h"

namespace planwright::worker {
namespace {

/// Sd 0.02 as in GPT-2. Source: openai/gpt-2, src/model.py.
constexpr double kWeightDeviation = 0.02;

/// FNV-1a, so that a tensor's random stream depends on its name alone.
std::uint64_t stream_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const unsigned char c : name) hash = (hash ^ c) * 0x100000001b3ULL;
  return counter_hash(seed, hash);
}

void fill_uniform(const at::Tensor& host, std::uint64_t stream) {
  const double width = std::sqrt(12.0) * kWeightDeviation;  // sd of a uniform: width / sqrt(12)
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, host.scalar_type(), "fill_uniform", [&] {
        scalar_t* out = host.data_ptr<scalar_t>();
        at::parallel_for(0, host.numel(), 32768, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const auto bits = counter_hash(stream, static_cast<std::uint64_t>(i)) >> 11;
            out[i] = static_cast<scalar_t>((static_cast<double>(bits) * 0x1p-53 - 0.5) * width);
          }
        });
      });
}

void initialize(const at::Tensor& weight, const std::string& name, std::uint64_t seed) {
  const auto ends_with = [&](const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  if (ends_with(".bias")) {
    weight.zero_();
  } else if (weight.dim() == 1) {
    weight.fill_(1);
  } else if (weight.is_cpu()) {
    fill_uniform(weight, stream_of(seed, name));
  } else {
    const at::Tensor host = at::empty(weight.sizes(), weight.options().device(at::kCPU));
    fill_uniform(host, stream_of(seed, name));
    weight.copy_(host);
  }
}

/// Weights and gradients by tensor name.
class Views {
 public:
  Views(const ModelState& state) {
    for (const FlatTensor& tensor : state.layout.tensors) {
      views_.emplace(tensor.tensor.name, std::pair(tensor_view(state.parameters, tensor),
                                                   tensor_view(state.gradients, tensor)));
    }
  }

  LinearWeights matrix(const std::string& name) const {
    LinearWeights w;
    std::tie(w.weight, w.weight_gradient) = find(name + ".weight");
    std::tie(w.bias, w.bias_gradient) = find(name + ".bias");
    return w;
  }

  NormWeights norm(const std::string& name, NormKind kind, double eps) const {
    NormWeights w;
    w.kind = kind;
    w.eps = eps;
    std::tie(w.weight, w.weight_gradient) = find(name + ".weight");
    std::tie(w.bias, w.bias_gradient) = find(name + ".bias");
    return w;
  }

  /// Undefined tensors if the model has none of that name.
  std::pair<at::Tensor, at::Tensor> find(const std::string& name) const {
    const auto found = views_.find(name);
    return found == views_.end() ? std::pair<at::Tensor, at::Tensor>() : found->second;
  }

 private:
  std::map<std::string, std::pair<at::Tensor, at::Tensor>> views_;
};

BlockWeights block_weights(const Views& views, const ModelSpec& model, std::int64_t layer) {
  const BlockSpec& spec = model.block(layer);
  const std::string prefix = "blocks." + std::to_string(layer) + ".";
  return {.norm1 = views.norm(prefix + "norm1", spec.norm, model.norm_eps),
          .norm2 = views.norm(prefix + "norm2", spec.norm, model.norm_eps),
          .qkv = views.matrix(prefix + "qkv"),
          .out = views.matrix(prefix + "out"),
          .up = views.matrix(prefix + (spec.mlp == MlpKind::gated ? "gate_up" : "up")),
          .down = views.matrix(prefix + "down")};
}

/// Angles of position p and pair i: p theta^(-2 i / head_dim). Source: Su et al. (2021), eq. 15.
RotaryTables rotary_tables(const ModelSpec& model, std::int64_t seq,
                           const at::TensorOptions& type) {
  const std::int64_t half = model.block(0).head_dim / 2;
  RotaryTables tables{at::empty({seq, half}, type), at::empty({seq, half}, type)};
  const auto host = [&](const at::Tensor& table) {
    return table.is_cpu() ? table : at::empty({seq, half}, type.device(at::kCPU));
  };
  const at::Tensor cos = host(tables.cos), sin = host(tables.sin);
  AT_DISPATCH_FLOATING_TYPES(cos.scalar_type(), "rotary_tables", [&] {
    for (std::int64_t i = 0; i < seq * half; ++i) {
      const std::int64_t position = i / half;
      const double exponent = -2.0 * static_cast<double>(i % half) / static_cast<double>(2 * half);
      const double angle = static_cast<double>(position) * std::pow(model.rope_theta, exponent);
      cos.data_ptr<scalar_t>()[i] = static_cast<scalar_t>(std::cos(angle));
      sin.data_ptr<scalar_t>()[i] = static_cast<scalar_t>(std::sin(angle));
    }
  });
  if (!tables.cos.is_cpu()) {
    tables.cos.copy_(cos);
    tables.sin.copy_(sin);
  }
  return tables;
}

ModelWeights model_weights(const ModelSpec& model, const ModelState& state) {
  const Views views(state);
  ModelWeights w;
  std::tie(w.embedding.tokens, w.embedding.tokens_gradient) = views.find("embedding");
  std::tie(w.embedding.positions, w.embedding.positions_gradient) = views.find("positions");
  for (std::int64_t layer = 0; layer < model.layers(); ++layer) {
    w.blocks.push_back(block_weights(views, model, layer));
  }
  w.final_norm = views.norm("final_norm", model.runs.back().block.norm, model.norm_eps);
  w.head = views.matrix("head");
  if (model.tied_embeddings) {
    w.head.weight = w.embedding.tokens;
    w.head.weight_gradient = w.embedding.tokens_gradient;
  }
  return w;
}

}  // namespace

at::ScalarType scalar_type(DType type) {
  switch (type) {
    case DType::fp64:
      return at::kDouble;
    case DType::fp32:
      return at::kFloat;
    case DType::bf16:
      return at::kBFloat16;
    case DType::fp16:
      return at::kHalf;
    case DType::fp8:
      return at::kFloat8_e4m3fn;
  }
  return at::kFloat;
}

at::Tensor tensor_view(const at::Tensor& flat, const FlatTensor& tensor) {
  return flat.narrow(0, tensor.offset, tensor.numel).view(tensor.tensor.shape);
}

ModelState load_model(const Problem& problem, const FlatLayout& layout, std::uint64_t seed,
                      at::Device device) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const auto options = [&](DType type) {
    return at::TensorOptions(scalar_type(type)).device(device);
  };
  ModelState state;
  state.layout = layout;
  {
    const AccountScope account(Account::parameters);
    state.parameters = at::empty({layout.numel}, options(recipe.storage));
  }
  {
    const AccountScope account(Account::gradients);
    state.gradients = at::empty({layout.numel}, options(recipe.gradient));
  }
  state.parameters.zero_();
  for (const FlatTensor& tensor : layout.tensors) {
    initialize(tensor_view(state.parameters, tensor), tensor.tensor.name, seed);
  }
  state.weights = model_weights(problem.model, state);
  if (problem.model.positions == Positions::rotary) {
    const AccountScope account(Account::parameters);
    state.weights.rotary = rotary_tables(problem.model, problem.workload.seq,
                                         options(accumulation_type(recipe.compute)));
  }
  return state;
}

}  // namespace planwright::worker
