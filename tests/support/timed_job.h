#pragma once

#include <string>
#include <vector>

#include "launcher/probe_runner.h"

namespace planwright::testing {

/// Runs the jobs one after another in one set of processes. A WorldError that names `what` if one
/// of them does not end well.
std::vector<Measurement> measure(const std::string& what, const std::vector<probes::TrainJob>& jobs,
                                 const launcher::RunOptions& options);

/// Values of repeated measurements, and how far they lie apart.
struct Spread {
  double median = 0, least = 0, most = 0;
};
Spread spread(const std::vector<double>& values);

/// a[i] / b[i].
std::vector<double> ratios(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace planwright::testing
