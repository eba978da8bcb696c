#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/spec/problem.h"
#include "probes/worker/model_state.h"
#include "probes/worker/transformer.h"

namespace planwright::worker::testing {

constexpr double kScale = 1.0 / 64;
constexpr int kMicroBatches = 2;

struct NamedModel {
  std::string name;
  ModelSpec model;
};

/// Between them: both norms, both MLPs, both activations, both kinds of positions, grouped heads,
/// normed heads, every residual, a tied head, and biases in every place and in none.
std::vector<NamedModel> model_kinds();

/// A small problem of the model with its weights, all of them random, norms and biases included.
struct LoadedModel {
  LoadedModel(const ModelSpec& model, Precision precision);
  LoadedModel(const ModelSpec& model, const PrecisionRecipe& recipe);

  struct How {
    KernelSet kernels = KernelSet::in_place;
    RecomputeKind recompute = RecomputeKind::none;
    AttentionKernel attention = AttentionKernel::flash;
    LossKernel loss = LossKernel::plain;
    Dropout dropout{};  ///< of the first micro-batch
    double scale = kScale;
  };
  /// Gradients of two micro-batches added up, and the sum of the losses. `dtype` double.
  struct Result {
    double loss = 0;
    at::Tensor gradients;  ///< the flat buffer, padding included
  };
  Result run(const How& how);

  Problem problem;
  ModelState state;
};

/// One of the two micro-batches that `run` takes, and its dropout.
MicroBatch sample_batch(const Problem& problem, int index);
Dropout dropout_of_batch(Dropout of_first, int index);

/// The largest difference, as a fraction of the largest value of `expected` unless that is 0.
double relative_difference(const at::Tensor& actual, const at::Tensor& expected);

}  // namespace planwright::worker::testing
