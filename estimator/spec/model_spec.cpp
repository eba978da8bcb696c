#include "estimator/spec/model_spec.h"

#include <functional>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace planwright {
namespace {

using Shape = std::vector<std::int64_t>;

void add_norm(std::vector<ParameterTensor>& out, const std::string& name, NormKind kind,
              std::int64_t hidden) {
  out.push_back({name + ".weight", {hidden}});
  if (kind == NormKind::layer_norm) out.push_back({name + ".bias", {hidden}});
}

void add_linear(std::vector<ParameterTensor>& out, const std::string& name, Shape shape,
                bool bias) {
  const std::int64_t rows = shape[0];
  out.push_back({name + ".weight", std::move(shape)});
  if (bias) out.push_back({name + ".bias", {rows}});
}

void add_block(std::vector<ParameterTensor>& out, const std::string& prefix, const BlockSpec& b,
               std::int64_t hidden) {
  const std::int64_t width = b.heads * b.head_dim;
  const std::int64_t up = b.mlp == MlpKind::gated ? 2 * b.ffn : b.ffn;
  add_norm(out, prefix + "norm1", b.norm, hidden);
  add_linear(out, prefix + "qkv", {width + 2 * b.kv_heads * b.head_dim, hidden}, b.qkv_bias);
  add_linear(out, prefix + "out", {hidden, width}, b.out_bias);
  add_norm(out, prefix + "norm2", b.norm, hidden);
  add_linear(out, prefix + (b.mlp == MlpKind::gated ? "gate_up" : "up"), {up, hidden}, b.mlp_bias);
  add_linear(out, prefix + "down", {hidden, b.ffn}, b.mlp_bias);
}

}  // namespace

std::int64_t ModelSpec::layers() const {
  std::int64_t sum = 0;
  for (const auto& run : runs) sum += run.count;
  return sum;
}

const BlockSpec& ModelSpec::block(std::int64_t layer) const {
  for (const auto& run : runs) {
    if (layer < run.count) return run.block;
    layer -= run.count;
  }
  throw std::out_of_range("ModelSpec::block: no such layer");
}

std::int64_t ParameterTensor::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ParameterTensor> parameter_tensors(const ModelSpec& model) {
  std::vector<ParameterTensor> out;
  out.push_back({"embedding", {model.vocab, model.hidden}});
  if (model.positions == Positions::learned) {
    out.push_back({"positions", {model.max_positions, model.hidden}});
  }
  std::int64_t layer = 0;
  for (const auto& run : model.runs) {
    for (std::int64_t i = 0; i < run.count; ++i, ++layer) {
      add_block(out, "blocks." + std::to_string(layer) + ".", run.block, model.hidden);
    }
  }
  add_norm(out, "final_norm", model.runs.back().block.norm, model.hidden);
  if (!model.tied_embeddings) out.push_back({"head.weight", {model.vocab, model.hidden}});
  return out;
}

ParameterCounts parameter_counts(const ModelSpec& model) {
  std::int64_t total = 0;
  for (const auto& tensor : parameter_tensors(model)) total += tensor.numel();
  return {.total = total, .trainable = total, .active = total};
}

}  // namespace planwright
