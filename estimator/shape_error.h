#pragma once

#include <vector>

#include "estimator/spec/candidate.h"

namespace planwright::estimator {

/// ln(measured / predicted) of a candidate's time.
struct Miss {
  Candidate candidate;
  double log_miss = 0;
};

/// By how much the times of a stand-in, once it was fitted, miss those of the unknown model that it
/// stands for: a Gaussian process over the candidates, for how the model's time grows with the
/// micro-batch and with all else is its own. Source: Rasmussen, Williams (2006), algorithm 2.1.
class ShapeError {
 public:
  /// At most some hundred misses: the cost is their number's cube.
  explicit ShapeError(std::vector<Miss> misses);

  struct At {
    double mean = 0, sd = 0;
  };
  At at(const Candidate& candidate) const;

 private:
  std::vector<Miss> misses_;
  std::vector<double> factor_;   ///< Cholesky's, by rows
  std::vector<double> weights_;  ///< of the misses, in a mean
};

}  // namespace planwright::estimator
