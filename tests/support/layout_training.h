#pragma once

#include <map>
#include <string>
#include <vector>

#include "launcher/probe_runner.h"
#include "tests/support/layouts.h"
#include "tests/support/training_dump.h"

namespace planwright::testing {

/// What candidates compute in fp64 with `steps` steps of SGD, in their order; those of equal world
/// size are trained by one set of processes. Files are written into `folder`. A WorldError if one
/// does not end well.
std::vector<TrainingDump> train_layouts(LayoutModel model, const std::vector<Candidate>& candidates,
                                        int steps, const std::string& folder,
                                        const launcher::RunOptions& options);

/// The largest differences of a run: of the first step's loss and gradients, and of the weights
/// after the last, each as a fraction of the tensor's largest value.
struct LayoutDifference {
  double loss = 0;
  TensorDifference gradient, weight;
  double largest() const;
};
LayoutDifference difference(LayoutModel model, const TrainingDump& actual,
                            const TrainingDump& expected);

}  // namespace planwright::testing
