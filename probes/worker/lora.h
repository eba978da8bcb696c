#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "probes/worker/kernels.h"
#include "probes/worker/weights.h"

/// Low-rank adapters beside a matrix: y += B (A x). Activations are [rows, width]; what an adapter
/// keeps of its forward is h = A x, [rows, rank].
namespace planwright::worker {

using LoraStates = std::vector<at::Tensor>;  ///< of a matrix's adapters, in their order

/// In new storage.
LoraStates lora_states(const at::Tensor& x, const LinearWeights& w);

/// y += B h for every adapter, each in its own columns.
void add_lora(const LoraStates& states, const LinearWeights& w, const at::Tensor& y);

/// Adds the gradients of A and B, given those of y; h becomes its own gradient.
void lora_weight_gradient(const Kernels& kernels, const at::Tensor& dy, const at::Tensor& x,
                          const LinearWeights& w, const LoraStates& states);

/// dx += Aᵀ dh for every adapter.
void add_lora_input_gradient(const LoraStates& d_states, const LinearWeights& w,
                             const at::Tensor& dx);

}  // namespace planwright::worker
