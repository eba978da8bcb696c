#include "probes/worker/model_state.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

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

/// Values of the whole tensor at the places of this part; padding past its end is 0.
void fill_uniform(const at::Tensor& host, const PartTensor& part, std::uint64_t stream) {
  const double width = std::sqrt(12.0) * kWeightDeviation;  // sd of a uniform: width / sqrt(12)
  const std::int64_t columns = part.columns.count, whole_columns = part.whole[1];
  std::int64_t row = 0;
  AT_DISPATCH_FLOATING_TYPES_AND2(
      at::kBFloat16, at::kHalf, host.scalar_type(), "fill_uniform", [&] {
        scalar_t* const out = host.data_ptr<scalar_t>();
        for (const Stretch& rows : part.rows) {
          const std::int64_t valid =
              std::clamp<std::int64_t>(part.whole[0] - rows.first, 0, rows.count);
          at::parallel_for(0, valid, 64, [&](std::int64_t begin, std::int64_t end) {
            for (std::int64_t i = begin; i < end; ++i) {
              const std::int64_t first = (rows.first + i) * whole_columns + part.columns.first;
              for (std::int64_t j = 0; j < columns; ++j) {
                const auto bits = counter_hash(stream, static_cast<std::uint64_t>(first + j)) >> 11;
                out[(row + i) * columns + j] =
                    static_cast<scalar_t>((static_cast<double>(bits) * 0x1p-53 - 0.5) * width);
              }
            }
          });
          row += rows.count;
        }
      });
}

void initialize(const at::Tensor& weight, const PartTensor& part, std::uint64_t seed) {
  const std::string& name = part.tensor.name;
  const auto ends_with = [&](const std::string& end) {
    return name.size() >= end.size() &&
           name.compare(name.size() - end.size(), end.size(), end) == 0;
  };
  if (ends_with(".bias")) {
    weight.zero_();
  } else if (weight.dim() == 1) {
    weight.fill_(1);
  } else if (weight.is_cpu()) {
    fill_uniform(weight, part, stream_of(seed, name));
  } else {
    const at::Tensor host = at::zeros(weight.sizes(), weight.options().device(at::kCPU));
    fill_uniform(host, part, stream_of(seed, name));
    weight.copy_(host);
  }
}

/// A tensor's place in the storage of its bucket alone.
at::Tensor view_in_bucket(const at::Tensor& storage, const FlatLayout& layout,
                          const FlatTensor& tensor) {
  const FlatBucket& bucket = layout.buckets[static_cast<std::size_t>(tensor.bucket)];
  return storage.narrow(0, tensor.offset - bucket.begin, tensor.numel).view(tensor.tensor.shape);
}

/// A weight as the passes see it, and its gradient.
struct Slot {
  at::Tensor* weight = nullptr;
  at::Tensor* gradient = nullptr;
};

Slot linear_slot(LinearWeights& w, bool bias) {
  return bias ? Slot{&w.bias, &w.bias_gradient} : Slot{&w.weight, &w.weight_gradient};
}

Slot norm_slot(NormWeights& w, bool bias) {
  return bias ? Slot{&w.bias, &w.bias_gradient} : Slot{&w.weight, &w.weight_gradient};
}

AdapterWeights& adapter_of(BlockWeights& w, LoraTarget target) {
  for (LinearWeights* matrix : {&w.qkv, &w.out, &w.up, &w.down}) {
    for (AdapterWeights& each : matrix->adapters) {
      if (each.target == target) return each;
    }
  }
  throw std::logic_error("no matrix of a block has an adapter " + std::string(word(target)));
}

/// `name` is what comes after "blocks.N.".
Slot block_slot(BlockWeights& w, const std::string& name) {
  const std::size_t dot = name.find('.');
  const std::string layer = name.substr(0, dot);
  const bool bias = name.substr(dot + 1) == "bias";
  if (layer == "norm1") return norm_slot(w.norm1, bias);
  if (layer == "norm2") return norm_slot(w.norm2, bias);
  if (layer == "q_norm") return norm_slot(w.q_norm, bias);
  if (layer == "k_norm") return norm_slot(w.k_norm, bias);
  if (layer == "qkv") return linear_slot(w.qkv, bias);
  if (layer == "out") return linear_slot(w.out, bias);
  if (layer == "gate_up" || layer == "up") return linear_slot(w.up, bias);
  if (layer == "down") return linear_slot(w.down, bias);
  if (const auto target = from_word<LoraTarget>(layer)) {
    AdapterWeights& adapter = adapter_of(w, *target);
    return linear_slot(name.substr(dot + 1) == "lora_A" ? adapter.a : adapter.b, false);
  }
  throw std::logic_error("no weight of a block is called " + name);
}

/// Where the tensor goes; a tied head goes to two places.
std::vector<Slot> slots_of(ModelState& state, const PartTensor& tensor) {
  ModelWeights& w = state.weights;
  const std::string& name = tensor.tensor.name;
  const Slot head{&w.head.weight, &w.head.weight_gradient};
  if (name == "embedding") {
    std::vector<Slot> slots;
    if (state.part.first) slots.push_back({&w.embedding.tokens, &w.embedding.tokens_gradient});
    if (tensor.first_unit == state.part.head_unit()) slots.push_back(head);
    return slots;
  }
  if (name == "positions") return {{&w.embedding.positions, &w.embedding.positions_gradient}};
  if (name == "head.weight") return {head};
  if (name.rfind("final_norm.", 0) == 0)
    return {norm_slot(w.final_norm, name == "final_norm.bias")};
  const std::size_t block =
      static_cast<std::size_t>(tensor.unit - state.part.block_unit(state.part.first_layer));
  return {block_slot(w.blocks.at(block), name.substr(name.find('.', name.find('.') + 1) + 1))};
}

/// Calls body(slot, view) for every weight of a bucket.
template <class Body>
void over_bucket(ModelState& state, const FlatLayout& layout, std::size_t bucket,
                 const at::Tensor& storage, const Body& body) {
  for (const FlatTensor& tensor : layout.tensors) {
    if (tensor.bucket != static_cast<int>(bucket)) continue;
    const at::Tensor view =
        storage.defined() ? view_in_bucket(storage, layout, tensor) : at::Tensor();
    for (const Slot& slot : slots_of(state, tensor)) body(slot, view);
  }
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

/// Weights without views, of the right kinds.
ModelWeights unbound_weights(const ModelSpec& model, const ModelPart& part,
                             const at::TensorOptions& options) {
  const bool trained = !model.lora.freezes();
  ModelWeights w;
  w.options = options;
  w.embedding.trained = w.head.trained = trained;
  const auto norm = [&](NormWeights& weights, NormKind kind) {
    weights.kind = kind;
    weights.eps = model.norm_eps;
    weights.trained = trained;
  };
  for (std::int64_t i = 0; i < part.layers; ++i) {
    const BlockSpec& block = model.block(part.first_layer + i);
    BlockWeights& weights = w.blocks.emplace_back();
    norm(weights.norm1, block.norm);
    norm(weights.norm2, block.norm);
    norm(weights.q_norm, NormKind::rms_norm);
    norm(weights.k_norm, NormKind::rms_norm);
    const BlockSpec share = tensor_share(block, part.tp);
    for (const auto& [which, matrix] : {std::pair{BlockMatrix::qkv, &weights.qkv},
                                        {BlockMatrix::out, &weights.out},
                                        {BlockMatrix::up, &weights.up},
                                        {BlockMatrix::down, &weights.down}}) {
      matrix->trained = trained;
      for (const Adapter& each : adapters_of(model.lora, share, model.hidden, which)) {
        matrix->adapters.push_back({each.target, each.first, {}, {}});
      }
    }
  }
  norm(w.final_norm, model.runs.back().block.norm);
  return w;
}

/// A bucket's initial values go to its flat buffer: whole, or this rank's slice of it.
void initialize_bucket(ModelState& state, const FlatParameters& flat, std::size_t index,
                       std::uint64_t seed) {
  const FlatBucket& bucket = flat.layout.buckets[index];
  const bool sharded = state.sharding.parameters;
  const at::Tensor storage =
      sharded ? at::empty({bucket.numel}, flat.values.options()) : bucket_view(flat.values, bucket);
  storage.zero_();
  for (const FlatTensor& tensor : flat.layout.tensors) {
    if (tensor.bucket != static_cast<int>(index)) continue;
    initialize(view_in_bucket(storage, flat.layout, tensor), tensor, seed);
  }
  if (!sharded) return bind_parameters(state, flat.layout, index, storage);
  const std::int64_t numel = bucket.numel / flat.layout.ranks;
  own_slice(flat.layout, state.sharding, bucket, flat.values, true)
      .copy_(storage.narrow(0, state.sharding.rank * numel, numel));
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

at::Tensor bucket_view(const at::Tensor& flat, const FlatBucket& bucket) {
  return flat.narrow(0, bucket.begin, bucket.numel);
}

at::Tensor own_slice(const FlatLayout& layout, const Sharding& sharding, const FlatBucket& bucket,
                     const at::Tensor& flat, bool sharded) {
  const std::int64_t numel = bucket.numel / layout.ranks;
  const std::int64_t begin =
      sharded ? bucket.begin / layout.ranks : bucket.begin + sharding.rank * numel;
  return flat.narrow(0, begin, numel);
}

at::Tensor own_slice(const ModelState& state, const FlatBucket& bucket, const at::Tensor& flat,
                     bool sharded) {
  return own_slice(state.layout, state.sharding, bucket, flat, sharded);
}

void bind_parameters(ModelState& state, const FlatLayout& layout, std::size_t bucket,
                     const at::Tensor& storage) {
  over_bucket(state, layout, bucket, storage,
              [](const Slot& slot, const at::Tensor& view) { *slot.weight = view; });
}

void bind_gradients(ModelState& state, std::size_t bucket, const at::Tensor& storage) {
  over_bucket(state, state.layout, bucket, storage,
              [](const Slot& slot, const at::Tensor& view) { *slot.gradient = view; });
}

ModelState load_model(const Problem& problem, const ModelPart& part, const FlatLayout& layout,
                      const Sharding& sharding, std::uint64_t seed, at::Device device) {
  const PrecisionRecipe& recipe = problem.workload.recipe;
  const auto options = [&](DType type) {
    return at::TensorOptions(scalar_type(type)).device(device);
  };
  ModelState state;
  state.layout = layout;
  state.frozen_layout = frozen_layout(problem.model, part, sharding.parameters ? layout.ranks : 1);
  state.part = part;
  state.sharding = sharding;
  state.weights = unbound_weights(problem.model, part, options(recipe.storage));
  const auto buffer = [&](Account which, const FlatLayout& laid_out, DType type, bool sharded) {
    const AccountScope account(which);
    return at::empty({sharded ? laid_out.shard_numel() : laid_out.numel}, options(type));
  };
  state.frozen =
      buffer(Account::parameters, state.frozen_layout, recipe.storage, sharding.parameters);
  state.parameters = buffer(Account::parameters, layout, recipe.storage, sharding.parameters);
  state.gradients = buffer(Account::gradients, layout, recipe.gradient, sharding.gradients);
  const AccountScope account(Account::parameters);
  for (const FlatParameters& flat : {state.frozen_parameters(), state.trained_parameters()}) {
    for (std::size_t i = 0; i < flat.layout.buckets.size(); ++i) {
      initialize_bucket(state, flat, i, seed);
    }
  }
  for (std::size_t i = 0; i < layout.buckets.size() && !sharding.gradients; ++i) {
    bind_gradients(state, i, bucket_view(state.gradients, layout.buckets[i]));
  }
  if (problem.model.positions == Positions::rotary) {
    state.weights.rotary = rotary_tables(problem.model, problem.workload.seq,
                                         options(accumulation_type(recipe.compute)));
  }
  return state;
}

ModelState load_model(const Problem& problem, const FlatLayout& layout, std::uint64_t seed,
                      at::Device device) {
  return load_model(problem, whole_model(problem.model), layout, {}, seed, device);
}

}  // namespace planwright::worker
