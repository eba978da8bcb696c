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
/// micro-batch and with all else is its own. How far a miss tells of others, and how large misses
/// are, is itself unknown: several processes, each weighted by how well it foretold the misses.
/// Source: Rasmussen, Williams (2006), algorithm 2.1 and section 5.2.
class ShapeError {
 public:
  /// At most some hundred misses: the cost is their number's cube.
  explicit ShapeError(std::vector<Miss> misses);

  struct At {
    double mean = 0, sd = 0;
  };
  At at(const Candidate& candidate) const;

 private:
  struct Process {
    double spread = 0;            ///< of the misses, before any is known
    double reach = 0;             ///< in ln(micro-batch)
    double weight = 0;            ///< of all, 1
    std::vector<double> factor;   ///< Cholesky's, by rows
    std::vector<double> weights;  ///< of the misses, in a mean
  };
  Process solved(double spread, double reach) const;
  At at(const Process& process, const Candidate& candidate) const;

  std::vector<Miss> misses_;
  std::vector<Process> processes_;
};

}  // namespace planwright::estimator
