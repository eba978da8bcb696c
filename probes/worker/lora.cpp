#include "probes/worker/lora.h"

#include <ATen/ops/empty.h>

#include "probes/worker/matmul.h"

namespace planwright::worker {
namespace {

at::Tensor columns_of(const at::Tensor& y, const AdapterWeights& adapter) {
  return y.narrow(1, adapter.first, adapter.b.weight.size(0));
}

/// Calls body(adapter, its h).
template <class Body>
void over_adapters(const LinearWeights& w, const LoraStates& states, const Body& body) {
  for (std::size_t i = 0; i < w.adapters.size(); ++i) body(w.adapters[i], states[i]);
}

}  // namespace

LoraStates lora_states(const at::Tensor& x, const LinearWeights& w) {
  LoraStates states;
  for (const AdapterWeights& adapter : w.adapters) {
    states.push_back(at::empty({x.size(0), adapter.a.weight.size(0)}, x.options()));
    linear(x, adapter.a, states.back());
  }
  return states;
}

void add_lora(const LoraStates& states, const LinearWeights& w, const at::Tensor& y) {
  over_adapters(w, states, [&](const AdapterWeights& adapter, const at::Tensor& h) {
    linear_accumulate(h, adapter.b, columns_of(y, adapter));
  });
}

void lora_weight_gradient(const Kernels& kernels, const at::Tensor& dy, const at::Tensor& x,
                          const LinearWeights& w, const LoraStates& states) {
  over_adapters(w, states, [&](const AdapterWeights& adapter, const at::Tensor& h) {
    const at::Tensor d = columns_of(dy, adapter);
    weight_gradient(kernels, d, h, adapter.b);
    input_gradient(d, adapter.b, h);
    weight_gradient(kernels, h, x, adapter.a);
  });
}

void add_lora_input_gradient(const LoraStates& d_states, const LinearWeights& w,
                             const at::Tensor& dx) {
  over_adapters(w, d_states, [&](const AdapterWeights& adapter, const at::Tensor& dh) {
    accumulate_input_gradient(dh, adapter.a, dx);
  });
}

}  // namespace planwright::worker
