#pragma once

#include <string>
#include <vector>

#include "estimator/spec/candidate.h"
#include "estimator/spec/model_spec.h"

namespace planwright::testing {

/// What the ranks of a training job wrote because of TrainJob::dump, put together. Tensors stand
/// one after another in the order of parameter_tensors, those that are trained.
struct TrainingDump {
  double loss = 0;                ///< of the first step
  std::vector<double> gradients;  ///< of the first step
  std::vector<double> weights;    ///< after the last step
};

/// `prefix` is TrainJob::dump. A std::runtime_error unless every rank's files are there and have as
/// many numbers as its part of the model, and what two ranks hold is the same in both.
TrainingDump read_training_dump(const std::string& prefix, const ModelSpec& model,
                                const Candidate& candidate);

/// A tensor's largest |actual - expected| as a fraction of its largest |expected|.
struct TensorDifference {
  std::string tensor;
  double relative = 0;
};

/// Of each tensor. NaN, on whichever side, makes the difference infinite.
std::vector<TensorDifference> tensor_differences(const ModelSpec& model,
                                                 const std::vector<double>& actual,
                                                 const std::vector<double>& expected);

}  // namespace planwright::testing
